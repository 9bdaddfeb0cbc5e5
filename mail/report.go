package mail

// Report is what was reported of a send behind its back: it has bounced, or its
// recipient complains.
type Report struct {
	SendKey    // its Number may be AnyNumber
	Complaint  bool
	Class      BounceClass // of a bounce
	TimeMillis int64       // when it happened
}
