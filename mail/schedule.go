package mail

import (
	"context"
	"strings"
)

// A schedule is mail that somebody has asked for at a time to come. Until it is
// time it is a row that can be changed, and nothing of it is among the sends. The
// recipients, their addresses and their consent are looked up when it is
// released. It is released in two steps, so that nothing is sent twice: first
// the recipients are written, then the mail is handed in under the schedule's
// name. A process that finds the first step done does the second one again.

// ScheduleState is where a schedule stands.
type ScheduleState string

// The states. The last three are final.
const (
	ScheduleWaiting   ScheduleState = "waiting"
	ScheduleReleasing ScheduleState = "releasing" // who gets it is written
	ScheduleReleased  ScheduleState = "released"
	ScheduleCancelled ScheduleState = "cancelled"
	ScheduleInDoubt   ScheduleState = "in_doubt" // due between a dump and its restore, refused by the configuration, handed in partly for too long, or nobody can read it
)

// Schedule is a row of the table.
type Schedule struct {
	ID        string // a UUID, whose digits are also the id of the message
	State     ScheduleState
	Revision  int    // counts its changes
	DueMillis int64  // when it is released
	Request   string // JSON; who made it knows what it means

	CreatedMillis, UpdatedMillis int64
}

// Message is the id of the message that a schedule becomes.
func (s *Schedule) Message() string { return strings.ReplaceAll(s.ID, "-", "") }

// SchedulePlace is where a schedule is in a list of them, by when it is due and its id.
// The zero value is before all.
type SchedulePlace struct {
	DueMillis int64
	ID        string
}

// Place is where a schedule is.
func (s *Schedule) Place() SchedulePlace { return SchedulePlace{s.DueMillis, s.ID} }

// Bounds of schedules.
const (
	// MaxSchedules bounds, roughly, how many may wait.
	MaxSchedules = 100_000

	// MaxScheduleBytes bounds the request of one, before it is written who gets it.
	MaxScheduleBytes = 2 << 20
)

// ScheduleStore is where schedules are kept. The stores of package sqlstore are
// ones; what is promised of Store's methods holds for these.
type ScheduleStore interface {
	// AddSchedule stores a new one. An *Error with CodeInvalid: too many wait.
	AddSchedule(ctx context.Context, s Schedule) error

	// Schedule returns one; an *Error with CodeNotFound if there is none.
	Schedule(ctx context.Context, id string) (Schedule, error)

	// ChangeSchedule writes state, due and request, and counts the revision up.
	// ErrConflict: its revision is another one by now, nothing was written.
	ChangeSchedule(ctx context.Context, s Schedule) error

	// Schedules returns at most limit of a state behind a place that are due before a
	// moment, the earliest first.
	Schedules(ctx context.Context, state ScheduleState, after SchedulePlace, beforeMillis int64, limit int) ([]Schedule, error)

	// EachSchedule calls f with those that Schedules returns, one at a time, until f
	// returns false. f must be quick, as the database waits for it.
	EachSchedule(ctx context.Context, state ScheduleState, after SchedulePlace, beforeMillis int64, limit int, f func(*Schedule) bool) error

	// CountSchedules returns how many are of a state.
	CountSchedules(ctx context.Context, state ScheduleState) (int64, error)

	// DropSchedules removes them.
	DropSchedules(ctx context.Context, ids []string) error
}
