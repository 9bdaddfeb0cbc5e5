package mail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
)

// What an outcome makes of a row of the ledger. No database is asked here: a
// store reads rows, has outcomes recorded in them, and writes those that changed.
//
// A row's life is also its memory: an outcome whose line is in it was recorded
// before, and changes nothing, whatever the state is by now. That is why one
// that comes too late has a line as well: without it, it would hold when it is
// repeated and the state has become what it was waiting for. Numbers of
// attempts would not tell: evidence has none. Lines that were left out of a long
// life are forgotten; of those the state alone tells repeats.

// MaxLifeBytes is how long a row's life may grow: beyond it the middle is left
// out, but for a quarter at its beginning.
const MaxLifeBytes = 16 << 10

// Limits of the texts of an outcome that a row has, in bytes. Longer ones are cut.
const (
	MaxRouteBytes  = 128
	MaxRemoteBytes = 255
	MaxReasonBytes = 255
)

// ReasonDecided is the reason of an outcome that somebody has decided on.
const ReasonDecided = "decided"

// ReasonLost is the reason of sends in doubt that were to be attempted and that no
// lane has any more.
const ReasonLost = "lost"

// ReasonAborted is the reason of a cancelled send whose template did not want it sent
// (abort_message).
const ReasonAborted = "aborted"

// MaxLostCount is up to how many sends with that reason are counted.
const MaxLostCount = 100_000

// lifeLine is a line of a row's life.
type lifeLine struct {
	At      int64  `json:"at"` // ms since 1970
	Event   string `json:"event,omitempty"`
	Was     string `json:"was,omitempty"`
	State   string `json:"state"`
	Attempt int    `json:"attempt,omitempty"`
	Due     int64  `json:"due,omitempty"` // ms since 1970
	Route   string `json:"route,omitempty"`
	Remote  string `json:"remote,omitempty"`
	Code    int    `json:"code,omitempty"`
	Reply   string `json:"reply,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Late    bool   `json:"late,omitempty"` // written by late
}

// words says what a line says to a person.
func (l *lifeLine) words() string {
	words := []string{time.UnixMilli(l.At).UTC().Format("2006-01-02T15:04:05.000Z"), l.State}
	add := func(format string, value any, there bool) {
		if there {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("(%s)", l.Event, l.Event != "" && l.Event != l.State)
	add("attempt %d", l.Attempt, l.Attempt > 0)
	add("by %s", l.Route, l.Route != "")
	add("at %s", l.Remote, l.Remote != "")
	add("%d", l.Code, l.Code != 0)
	add("%s", l.Reason, l.Reason != "")
	add("due %s", time.UnixMilli(l.Due).UTC().Format(time.RFC3339), l.Due != 0)
	add("%q", l.Reply, l.Reply != "")
	add("%s", "too late: it changed nothing", l.Late)
	return strings.Join(words, " ")
}

// LifeTexts says to a person what happened to a send, a line each, oldest first.
func LifeTexts(life string) (texts []string) {
	for line := range strings.Lines(life) {
		var l lifeLine
		if rest, ok := strings.CutPrefix(line, leftOut); ok {
			texts = append(texts, strings.TrimRight(rest, "}\n")+" more, left out")
		} else if json.Unmarshal([]byte(line), &l) == nil {
			texts = append(texts, l.words())
		}
	}
	return texts
}

// text returns the line, with the newline at its end. Bytes that are no UTF-8
// become U+FFFD.
func (l *lifeLine) text() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // numbers and texts: nothing that could fail
	return b.String()
}

// lateMark ends the line of an outcome that came too late.
const lateMark = `,"late":true}` + "\n"

func late(line string) string { return strings.TrimSuffix(line, "}\n") + lateMark }

// StoredSend is a send that was accepted, with its place in the log.
type StoredSend struct {
	Send
	Place sluice.Place
}

// StoredOutcome is an outcome with its place in the log.
type StoredOutcome struct {
	Outcome
	Place sluice.Place

	// Restored: the row of its send may be lost, since the database has gone back; it
	// gets one then.
	Restored bool

	// Bounced is as which kind of bounce the mail counts if it has failed; 0: it is none.
	Bounced ReactionKind
}

// NewSendRow returns the row of a send that was accepted.
func NewSendRow(s *StoredSend) SendRow {
	line := lifeLine{At: s.AcceptedMillis, Event: sluice.EventQueued, State: SendWaiting.String(), Due: s.DueMillis, Route: Clip(s.Route, MaxRouteBytes)}
	return SendRow{
		Message: s.Message, Number: s.Number, Partition: s.Place.Partition,
		State: SendWaiting, Priority: s.Priority, Class: s.Class,
		From: s.From, To: s.To, User: s.User, App: s.App, Tags: s.Tags, Metadata: s.Metadata,
		Attempts: s.Attempts, AcceptedMillis: s.AcceptedMillis, UpdatedMillis: s.AcceptedMillis, DueMillis: s.DueMillis,
		Life: line.text(), Journey: s.Journey, Step: s.Step, Variant: s.Variant, Occurrence: s.Occurrence, IgnoresCaps: s.IgnoresCaps,
	}
}

// RestoredRow returns the row of a send of which only an outcome is known: its
// class and priority are not, nor when it was accepted.
func RestoredRow(o *StoredOutcome) SendRow {
	line := lifeLine{At: o.TimeMillis, State: o.Was.String(), Reason: "restored", Reply: "the database had gone back, and its row was lost"}
	return SendRow{
		Message: o.Message, Number: o.Number, Partition: o.Place.Partition,
		State: o.Was, Priority: PriorityNormal, Class: ClassTransactional,
		To: o.To, User: o.User, App: o.App, Tags: o.Tags, Metadata: o.Metadata,
		AcceptedMillis: o.TimeMillis, UpdatedMillis: o.TimeMillis, Life: line.text(),
	}
}

// LaneKey names a send that is to be attempted.
type LaneKey struct {
	SendKey
	Doubt bool // it is in doubt, and an attempt is to come; else it waits
}

// InLane reports whether a send is to be attempted by itself: so a lane has it.
func (r *SendRow) InLane() bool {
	return r.State == SendWaiting || r.State == SendInDoubt && r.DueMillis != 0
}

// Ended reports whether nothing more is to be done for a send. For one in doubt
// somebody may still decide that it is attempted again.
func (r *SendRow) Ended() bool {
	return r.State != SendWaiting && r.State != SendInDoubt && r.DueMillis == 0
}

// LastDueMillis is until when the send waited at last, by its life; 0: it did not
// wait for a time.
func (r *SendRow) LastDueMillis() (due int64) {
	for line := range strings.Lines(r.Life) {
		var l lifeLine
		if json.Unmarshal([]byte(line), &l) == nil && l.Due != 0 {
			due = l.Due
		}
	}
	return due
}

// Recording is what Record has made of an outcome.
type Recording byte

// The recordings.
const (
	RecordedNothing Recording = iota // it was recorded before
	RecordedLate                     // only the row's life says that it came
	RecordedChange
)

// lineOf is the line of an outcome.
func lineOf(o *Outcome) lifeLine {
	return lifeLine{
		At: o.TimeMillis, Event: o.Event, Was: o.Was.String(), State: o.State.String(), Attempt: o.Attempts, Due: o.DueMillis,
		Route: Clip(o.Route, MaxRouteBytes), Remote: Clip(o.Remote, MaxRemoteBytes), Code: o.Code,
		Reply: Clip(o.Reply, MaxReplyBytes), Reason: Clip(o.Reason, MaxReasonBytes),
	}
}

// Undecided reports whether an operator can still resolve this in-doubt send. It is
// false once a retry is scheduled, a decision is recorded, or the send has more
// attempts than the caller has seen.
func (r *SendRow) Undecided(attempts int) bool {
	return r.State == SendInDoubt && r.DueMillis == 0 && r.Attempts <= attempts
}

// Knows reports whether an outcome has been recorded in the row, and whether it
// came too late.
func (r *SendRow) Knows(o *Outcome) (recorded, tooLate bool) {
	line := lineOf(o)
	text := line.text()
	tooLate = strings.Contains(r.Life, late(text))
	return tooLate || strings.Contains(r.Life, text), tooLate
}

// Tells reports whether the row's life has a line with a reason.
func (r *SendRow) Tells(reason string) bool {
	for line := range strings.Lines(r.Life) {
		var l lifeLine
		if json.Unmarshal([]byte(line), &l) == nil && l.Reason == reason {
			return true
		}
	}
	return false
}

// Record records an outcome in its row. Of who was erased it records what a server
// said as little as before: that often repeats the address.
func (r *SendRow) Record(o *Outcome) Recording {
	if (o.Reply != "" || o.Remote != "") && strings.Contains(r.Life, erasedMark) {
		nameless := *o
		nameless.Reply, nameless.Remote = "", ""
		o = &nameless
	}
	line := lineOf(o)
	text := line.text()
	if recorded, _ := r.Knows(o); recorded {
		return RecordedNothing
	}
	if r.State != o.Was && !r.leftAfterAll(o) || o.Reason == ReasonDecided && !r.Undecided(o.Attempts) {
		r.Life = cutLife(r.Life + late(text))
		return RecordedLate
	}
	if o.Attempts > r.Attempts || line.Route != "" {
		r.Route = line.Route
	}
	if o.Attempts > r.Attempts || line.Reply != "" {
		r.Reply = line.Reply
	}
	r.State, r.DueMillis, r.Reason, r.Attempts = o.State, o.DueMillis, line.Reason, max(r.Attempts, o.Attempts)
	r.UpdatedMillis = max(r.UpdatedMillis, o.TimeMillis)
	r.Life = cutLife(r.Life + text)
	return RecordedChange
}

// leftAfterAll reports whether an outcome says that a send has left which the row has as
// cancelled or suppressed. If Redis goes back behind a mark, the send waits there once
// more, and may be cancelled before its outcome is recorded again. A server has the mail.
func (r *SendRow) leftAfterAll(o *Outcome) bool {
	return o.State == SendSent && (r.State == SendCancelled || r.State == SendSuppressed)
}

// erasedMark is in the life of a row whose recipient was erased. In the texts of a
// line are no quotes without a backslash.
const erasedMark = `"event":"erased"`

// Erase takes out of a row who it is about: what is left says what happened, and
// when. Replies often repeat the address, and a host's name may tell as much.
func (r *SendRow) Erase(nowMillis int64) {
	r.To, r.User, r.Metadata, r.Reply = "", "", "", ""
	var b strings.Builder
	for line := range strings.Lines(r.Life) {
		var l struct {
			lifeLine
			Late bool `json:"late,omitempty"`
		}
		if strings.HasPrefix(line, leftOut) {
			b.WriteString(line)
			continue
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			continue // nobody has written it like that
		}
		l.Reply, l.Remote = "", ""
		if text := l.text(); l.Late {
			b.WriteString(late(text))
		} else {
			b.WriteString(text)
		}
	}
	if !strings.Contains(r.Life, erasedMark) {
		line := lifeLine{At: nowMillis, Event: "erased", State: r.State.String()}
		b.WriteString(line.text())
	}
	r.Life = cutLife(b.String())
}

// leftOut begins the line that stands for those that were left out.
const leftOut = `{"left_out":`

// cutLife leaves out the middle of a life that has grown too long.
func cutLife(life string) string {
	if len(life) <= MaxLifeBytes {
		return life
	}
	head := 0
	for {
		n := strings.IndexByte(life[head:], '\n') + 1
		if n == 0 || head+n > MaxLifeBytes/4 || strings.HasPrefix(life[head:], leftOut) {
			break
		}
		head += n
	}
	rest, lines := life[head:], 0
	if strings.HasPrefix(rest, leftOut) {
		mark, after, _ := strings.Cut(rest, "\n")
		lines, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(mark, leftOut), "}"))
		rest = after
	}
	for room := MaxLifeBytes - head - len(leftOut) - 24; len(rest) > room; {
		_, after, found := strings.Cut(rest, "\n")
		if !found || after == "" {
			break // the last line stays
		}
		rest, lines = after, lines+1
	}
	return life[:head] + leftOut + strconv.Itoa(lines) + "}\n" + rest
}

// Clip returns valid UTF-8 of at most so many bytes.
func Clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
