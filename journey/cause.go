package journey

// Cause is why somebody was taken out of a journey: by which trigger of which list, or
// what else has happened.
type Cause struct {
	Kind  CauseKind
	Index int // in exit_when, or in exceptions
}

// CauseKind is what has taken somebody out. The numbers are stored: never change one.
type CauseKind uint8

// The kinds.
const (
	CauseUnknown   CauseKind = 0 // of a record of before causes were kept
	CauseStopped   CauseKind = 1
	CauseDeleted   CauseKind = 2
	CauseMerged    CauseKind = 3
	CauseExit      CauseKind = 8  // exit_when[Index]; it takes the numbers up to 31
	CauseException CauseKind = 32 // exceptions[Index]; it takes the numbers up to 55
)

// causesOfList is how many triggers of a list have numbers of their own.
const causesOfList = 24

// Leave takes the person out: the record has the second and the cause from then on, in
// the place of what a record has of people who wait.
func (r *Record) Leave(c Cause, second uint32) {
	r.State, r.Due = StateExited, max(second, 1)
	r.Rank = uint8(c.Kind) + uint8(min(c.Index, causesOfList-1))
}

// Converts reports whether what the person does may still count as a conversion. So may it
// for one whom a trigger took out, as the control group converts whatever its people do.
func (r *Record) Converts() bool {
	why, _ := r.Left()
	return r.Inside() || r.State == StateControl || why.Kind >= CauseExit
}

// Left returns why and at which second the person was taken out.
func (r *Record) Left() (c Cause, second uint32) {
	kind := CauseKind(r.Rank)
	switch {
	case r.State != StateExited || r.Due == 0:
		return Cause{}, 0
	case kind >= CauseException:
		return Cause{CauseException, int(kind - CauseException)}, r.Due
	case kind >= CauseExit:
		return Cause{CauseExit, int(kind - CauseExit)}, r.Due
	}
	return Cause{Kind: kind}, r.Due
}
