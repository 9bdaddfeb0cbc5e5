package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/user/profile"
)

// doubtShown is a send in doubt, with its evidence: its life.
type doubtShown struct {
	sendShown
	From      string `json:"from"`
	Priority  string `json:"priority"`
	Class     string `json:"class"`
	AppID     string `json:"app_id,omitempty"`
	Accepted  string `json:"accepted"`
	Undecided bool   `json:"undecided"` // it is not attempted again by itself

	evidence []string // its life, in words
}

// Evidence is what happened to a send, a line each, for the page.
func (d doubtShown) Evidence() string { return strings.Join(d.evidence, "\n") }

func shownDoubt(row *mail.SendRow) doubtShown {
	shown := doubtShown{
		sendShown: shownSend(row, row.Message), From: row.From, Priority: row.Priority.String(), Class: row.Class.String(), AppID: row.App,
		Accepted: profile.TimeText(row.AcceptedMillis), Undecided: row.State == mail.SendInDoubt && row.DueMillis == 0,
		evidence: mail.LifeTexts(row.Life),
	}
	shown.Due = timeText(row.DueMillis)
	return shown
}

// listDoubts reads a page of sends in doubt, oldest first.
func listDoubts(ctx context.Context, store mail.LedgerStore, q query) (none list[doubtShown], err error) {
	message, number := "", -1
	if after := q.Get("after"); after != "" {
		var ok bool
		if message, number, ok = mail.ParseSendID(after); !ok {
			return none, errAfter(after)
		}
	}
	return readList(q, "doubts", defaultDoubts, maxDoubts, func(limit int) ([]mail.SendRow, error) {
		return store.InDoubt(ctx, message, number, limit)
	}, shownDoubt, func(row *mail.SendRow) string { return shownDoubt(row).Send })
}

// doubts is GET /v1/ledger/doubts.
func (q *request) doubts() (any, error) { return listDoubts(q.Context(), q.Ledger, q.query) }

// decided is the answer to a decision.
type decided struct {
	Settled bool       `json:"settled"`
	Send    doubtShown `json:"send"`
}

// decide is POST /v1/ledger/doubts/{send}.
func (q *request) decide() (any, error) {
	var decision, note string
	_, err := q.object(maxDecisionBytes, field{"decision", &decision}, field{"note", &note})
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(spool.Decisions, spool.Decision(decision)):
		return nil, refusal(sluice.CodeInvalid, "decision is %.32q, want one of %v", decision, spool.Decisions)
	case len(note) > spool.MaxNoteBytes || hasControl(note):
		return nil, refusal(sluice.CodeInvalid, "note: want at most %d bytes without control characters", spool.MaxNoteBytes)
	}
	send := q.PathValue("send")
	by := fmt.Sprintf("%s (%s)", q.who.ID, q.who.Name)
	if a, ok := q.w.(*answer); !ok || a.account == nil {
		by = "key " + by
	}
	row, settled, err := q.Decider.Decide(q.Context(), send, spool.Decision(decision), by, note)
	if err != nil {
		return nil, err
	}
	q.s.log.Info("a mail in doubt was decided about", "id", idOf(q.w), "send", send, "decision", decision, "by", q.who.ID, "settled", settled)
	return decided{settled, shownDoubt(&row)}, nil
}
