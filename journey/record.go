package journey

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Record is where a person stands in a journey, in RecordBytes bytes. Package flow keeps
// them, and takes one of zeros for none: a record has a state.
//
// Its form: step u8, Exits u8, state u8 (its upper 5 bits are Former), version u8, due u32,
// entered u32, occurrence u16, rank and conversions u16; little-endian. Never change it:
// blocks of records are kept in checkpoints too. A program that does not know Former
// takes such a record for one of a newer program, and leaves it alone.
type Record struct {
	Step       uint16 // its index in the plan, below MaxSteps; of a person who is in none any more: the last one
	State      State
	Version    uint8  // place in the journey's table of live versions
	Due        uint32 // seconds since 1970; 0: it waits for no time. Of StateExited: see Left
	Entered    uint32 // seconds since 1970
	Occurrence uint16 // how often the person had entered before

	// Rank is the best path of a ranked wait that has happened, counted from 1; 0: none. Of
	// another wait it is the path that has happened in a pause. At a step go it is RankMissing if there was no profile when the person was looked at last.
	// There, and at messages and updates, it says else by which decision the person stays
	// (journey/run/goes.go).
	// Of StateExited it is the cause (Left).
	// Converted has a bit for each conversion of this occurrence. They share the last
	// two bytes: 6 bits and 10.
	Rank      uint8
	Converted uint16

	// Former is not 0 if the place was that of a user who was merged into this person:
	// FormerMark of that user. The names of messages are that user's then.
	Former uint8

	// Exits has a bit for each of the occurrences before this one, the lowest for the
	// last: whether the person was taken out of it. See HasExited.
	Exits uint8
}

// LookAgain is after what time somebody is looked at again who is due and cannot go on.
const LookAgain = time.Minute

// MaxSteps is how many steps a record tells apart.
const MaxSteps = 1 << 8

// Again is the record of a person who enters once more, at a second.
func (r *Record) Again(entered uint32) Record {
	next := Record{State: StateInside, Entered: entered, Occurrence: r.Occurrence, Exits: r.Exits}
	if r.State == StateNone || r.Occurrence == MaxOccurrence {
		return next
	}
	next.Occurrence, next.Exits = r.Occurrence+1, r.Exits<<1
	if r.State == StateExited {
		next.Exits |= 1
	}
	return next
}

// HasExited reports whether the person was taken out of an occurrence: this one, or one of
// the eight before it. Of older ones it is not known, and the answer is no.
func (r *Record) HasExited(occurrence int) bool {
	before := int(r.Occurrence) - occurrence
	if before == 0 {
		return r.State == StateExited
	}
	return before > 0 && r.Exits>>(before-1)&1 != 0
}

// FormerMark is what a record has of the user whose place it was, 1 to 31, of a number
// that is made of the user's id. The profile of the person has the ids of all former
// users, and the mark finds one of them.
func FormerMark(of uint64) uint8 { return uint8(of%maxFormerMark) + 1 }

const (
	stateBits     = 3
	maxFormerMark = 1<<(8-stateBits) - 1
)

// MaxRank and MaxConversions are what their bits hold.
const (
	MaxRank        = 1<<rankBits - 1
	MaxConversions = 16 - rankBits

	rankBits = 6
)

// RankMissing is more than any path has: see Record.Rank.
const RankMissing = MaxRank

// RecordBytes is the size of a record.
const RecordBytes = 16

// MaxOccurrence is the last occurrence that a record counts.
const MaxOccurrence = 1<<16 - 1

// State is what a person is in a journey. The numbers are stored: never change one.
type State uint8

// The states.
const (
	// StateNone: the person was never in the journey, or has left it for good.
	StateNone State = 0

	// StateInside: the person is in a step.
	StateInside State = 1

	// StateWatching: the person has finished, and a conversion still counts.
	StateWatching State = 2

	// StateFinished: the person has gone a way to its end.
	StateFinished State = 3

	// StateExited: the person was taken out: by an exit criterion, an exception, a
	// merge, a deletion, or because the journey was stopped. Of the states, this one alone
	// has pending mail of the journey cancelled.
	StateExited State = 4

	// StateControl: the person is in the control group and gets nothing.
	StateControl State = 5
)

// String returns the state's word.
func (s State) String() string {
	switch s {
	case StateNone:
		return "none"
	case StateInside:
		return "inside"
	case StateWatching:
		return "watching"
	case StateFinished:
		return "finished"
	case StateExited:
		return "exited"
	case StateControl:
		return "control"
	}
	return "unknown"
}

// Inside reports whether the person has a place in the journey: in a step, or watched.
func (r *Record) Inside() bool { return r.State == StateInside || r.State == StateWatching }

// Waits reports whether the person is to be looked at when Due comes.
func (r *Record) Waits() bool {
	return r.Due != 0 && r.Inside()
}

// AsOf is the record as of a moment. Who is only watched is finished from Due on, also before
// a partition has moved the person: while a lane of mail is crowded or the store is behind, it
// moves nobody for hours.
func (r *Record) AsOf(moment time.Time) Record {
	if r.State == StateWatching && r.Waits() && int64(r.Due) <= moment.Unix() {
		out := *r
		out.State, out.Due = StateFinished, 0
		return out
	}
	return *r
}

// Sketch is what is asked of all records of a block: of one in which nobody waits, or that a
// newer program has written, Due is behind all times.
type Sketch struct {
	Inside  bool // as Record.Inside; of a newer program's record always
	Version uint8
	Due     uint32
}

// SketchOf reads it from a record's bytes, RecordBytes of them.
func SketchOf(b []byte) Sketch {
	state := State(b[2] & (1<<stateBits - 1))
	s := Sketch{Inside: state == StateInside || state == StateWatching || state > StateControl, Version: b[3], Due: math.MaxUint32}
	if due := binary.LittleEndian.Uint32(b[4:]); due != 0 && s.Inside && state <= StateControl {
		s.Due = due
	}
	return s
}

// StepOf reads from a record's bytes, RecordBytes of them, in which step of which version the
// person is; false: in none.
func StepOf(b []byte) (version, step uint8, inside bool) {
	return b[3], b[0], State(b[2]&(1<<stateBits-1)) == StateInside
}

// Append appends the record's bytes.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, byte(r.Step), r.Exits, byte(r.State)|r.Former<<stateBits, r.Version)
	dst = binary.LittleEndian.AppendUint32(dst, r.Due)
	dst = binary.LittleEndian.AppendUint32(dst, r.Entered)
	dst = binary.LittleEndian.AppendUint16(dst, r.Occurrence)
	return binary.LittleEndian.AppendUint16(dst, r.Converted<<rankBits|uint16(r.Rank)&MaxRank)
}

// Decode reads a record from the beginning of b. The error says that b is cut short,
// or that a newer program has written it.
func (r *Record) Decode(b []byte) error {
	if len(b) < RecordBytes {
		return fmt.Errorf("decode record of a journey: want %d bytes, got %d", RecordBytes, len(b))
	}
	*r = Record{
		Step: uint16(b[0]), Exits: b[1], State: State(b[2] & (1<<stateBits - 1)), Former: b[2] >> stateBits, Version: b[3],
		Due: binary.LittleEndian.Uint32(b[4:]), Entered: binary.LittleEndian.Uint32(b[8:]),
		Occurrence: binary.LittleEndian.Uint16(b[12:]),
	}
	last := binary.LittleEndian.Uint16(b[14:])
	r.Rank, r.Converted = uint8(last&MaxRank), last>>rankBits
	if r.State > StateControl {
		return fmt.Errorf("decode record of a journey: state %d is not known; was it written by a newer program?", r.State)
	}
	return nil
}
