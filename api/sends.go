package api

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/mail"
	"sluice/user"
)

// sendsPath is where sends are looked for.
const sendsPath = "/v1/sends"

// Bounds of looking for sends.
const (
	defaultSends = 50
	maxSends     = 200

	// sendsPiece rows are read at a time, sendsPieces times in a request. What is looked
	// for beyond them is behind the place that the answer names.
	sendsPiece  = 1000
	sendsPieces = 10

	// parallelSends bounds how many requests read sends at once, of a list or of a message,
	// which may have sluice.MaxRecipients; others wait for slotWait.
	parallelSends = 8
)

// sendFound is a send in a list, with the message that it is of.
type sendFound struct {
	sendShown
	Message  string `json:"message"`
	From     string `json:"from"`
	Class    string `json:"class"`
	Priority string `json:"priority"`
	Tags     string `json:"tags"`
	Journey  string `json:"journey,omitempty"`
	Step     string `json:"step,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Accepted string `json:"accepted"`
}

func foundSend(row *mail.SendRow) sendFound {
	return sendFound{
		sendShown: shownSend(row, row.Message), Message: row.Message, From: row.From, Class: row.Class.String(), Priority: row.Priority.String(), Tags: row.Tags,
		Journey: row.Journey, Step: row.Step, Variant: row.Variant, Accepted: timeText(row.AcceptedMillis),
	}
}

// sendsFound is a page of sends, the newest first. Next may be there when there are
// no more: then the next page is empty.
type sendsFound struct {
	Sends []sendFound `json:"sends"`
	Next  string      `json:"next,omitempty"`
}

// sort orders a page of a user's sends by time: they are read by their ids, which have
// another time in messages that journeys make.
func (f *sendsFound) sort() {
	slices.SortStableFunc(f.Sends, func(a, b sendFound) int { return strings.Compare(b.Accepted, a.Accepted) })
}

// listSends is GET /v1/sends: of a user, or the newest of all.
func (q *request) listSends() (any, error) {
	limit, err := q.query.number("limit", defaultSends, maxSends)
	if err != nil {
		return nil, err
	}
	before, err := parseSendPlace(q.query.Get("before"))
	if err != nil {
		return nil, err
	}
	to, state := strings.ToLower(q.query.Get("to")), q.query.Get("state")
	if utf8.RuneCountInString(to) > maxMailboxTo {
		return nil, refusal(sluice.CodeInvalid, "to has more than %d characters, want an address", maxMailboxTo)
	}
	if err := knownState(state); err != nil {
		return nil, err
	}
	read := q.Sends.NewestSends
	if name := q.query.Get("user"); name != "" {
		id, ok := user.ParseID(name)
		if !ok {
			return nil, refusal(sluice.CodeInvalid, "user is %.64q, want a braze_id", name)
		}
		read = func(ctx context.Context, before mail.SendPlace, limit int) ([]mail.SendRow, error) {
			return q.Sends.UserSends(ctx, id, before.SendKey, limit)
		}
	}
	if id := q.query.Get("message"); id != "" {
		return q.sendsOfMessage(id)
	}
	var found sendsFound
	err = q.lookAtSends(func(ctx context.Context) (err error) {
		found, err = findSends(ctx, read, before, limit, func(r *mail.SendRow) bool {
			return (to == "" || strings.ToLower(r.To) == to) && (state == "" || r.State.String() == state)
		})
		return err
	})
	return found, err
}

// lookAtSends is look at sends. Callers of /v1/messages/{id} may be many, so they wait for
// a turn, though not for long.
func (q *request) lookAtSends(read func(ctx context.Context) error) error {
	slots := q.s.sendLooks
	if takeSlot(q.Context(), slots) != nil {
		return refusal(sluice.CodeUnavailable, "%d looks at sends are under way, and no more are at a time; ask again", cap(slots))
	}
	defer func() { <-slots }()
	return q.inTime(read)
}

// findSends are the sends before one that are wanted, limit at most, of a bounded number.
func findSends(ctx context.Context, read func(ctx context.Context, before mail.SendPlace, limit int) ([]mail.SendRow, error), before mail.SendPlace, limit int, wanted func(*mail.SendRow) bool) (found sendsFound, err error) {
	found.Sends = []sendFound{}
	for range sendsPieces {
		rows, err := read(ctx, before, sendsPiece)
		if err != nil {
			return found, err
		}
		for i := range rows {
			before = rows[i].Place()
			if wanted(&rows[i]) {
				found.Sends = append(found.Sends, foundSend(&rows[i]))
			}
			if len(found.Sends) == limit {
				break
			}
		}
		if len(rows) < sendsPiece && len(found.Sends) < limit {
			found.sort()
			return found, nil
		}
		if len(found.Sends) == limit {
			break
		}
	}
	found.sort()
	found.Next = before.Message + "." + strconv.Itoa(before.Number) + "." + strconv.FormatInt(before.AcceptedMillis, 10)
	return found, nil
}

// sendsOfMessage is all sends of a message, with what those wait for that wait.
func (q *request) sendsOfMessage(id string) (any, error) {
	found := sendsFound{Sends: []sendFound{}}
	if !sluice.ValidMessageID(id) {
		return found, nil
	}
	err := q.lookAtSends(func(ctx context.Context) error {
		rows, err := q.Sends.MessageSends(ctx, id)
		for i := range rows {
			found.Sends = append(found.Sends, foundSend(&rows[i]))
			if r := &rows[i]; r.State == mail.SendWaiting {
				found.Sends[i].WaitsFor = q.WaitsFor(r.To, r.Class, r.AskedRoute())
			}
		}
		return err
	})
	return found, err
}

// knownState refuses a state that no send has.
func knownState(state string) error {
	if state == "" {
		return nil
	}
	var names []string
	for _, s := range mail.SendStates {
		if names = append(names, s.String()); s.String() == state {
			return nil
		}
	}
	return refusal(sluice.CodeInvalid, "state is %.32q, want %s", state, strings.Join(names, ", "))
}

// parseSendPlace reads the place in a list that an answer has named; empty: its beginning.
func parseSendPlace(text string) (p mail.SendPlace, err error) {
	if text == "" {
		return p, nil
	}
	message, rest, _ := strings.Cut(text, ".")
	number, time, _ := strings.Cut(rest, ".")
	n, badNumber := strconv.Atoi(number)
	at, badTime := strconv.ParseInt(time, 10, 64)
	if badNumber != nil || badTime != nil || n < 0 || at < sluice.MinEventTimeMillis || at > sluice.MaxEventTimeMillis || !sluice.ValidMessageID(message) {
		return p, errBefore(text)
	}
	return mail.SendPlace{AcceptedMillis: at, SendKey: mail.SendKey{Message: message, Number: n}}, nil
}
