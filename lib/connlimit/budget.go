package connlimit

import "sync/atomic"

// Budget is memory that many share: what is taken is given back. Its methods
// may be called by several goroutines at once.
type Budget struct {
	left atomic.Int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	b.left.Store(bytes)
	return b
}

// Take takes n bytes and reports true, or takes none.
func (b *Budget) Take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.left.Add(int64(n))
	return false
}

// Give gives n bytes back.
func (b *Budget) Give(n int) { b.left.Add(int64(n)) }

// Left is how many bytes are left.
func (b *Budget) Left() int64 { return b.left.Load() }
