package spool

// ComparePage has pages of so many keys compared, until restore is called.
func ComparePage(keys int) (restore func()) {
	before := comparePage
	comparePage = keys
	return func() { comparePage = before }
}
