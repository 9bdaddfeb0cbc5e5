package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/key"
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

// doubtsShown is a page of them.
type doubtsShown struct {
	Doubts []doubtShown `json:"doubts"`
	Next   string       `json:"next,omitempty"`
}

func shownDoubt(row *sluice.SendRow) doubtShown {
	shown := doubtShown{
		sendShown: shownSend(row, row.Message), From: row.From, Priority: row.Priority.String(), Class: row.Class.String(), AppID: row.App,
		Accepted: profile.TimeText(row.AcceptedMillis), Undecided: row.State == sluice.SendInDoubt && row.DueMillis == 0,
		evidence: sluice.LifeTexts(row.Life),
	}
	if row.DueMillis != 0 {
		shown.Due = profile.TimeText(row.DueMillis)
	}
	return shown
}

// listDoubts reads a page of sends in doubt, oldest first.
func listDoubts(r *http.Request, store sluice.LedgerStore, values url.Values) (list doubtsShown, err error) {
	list.Doubts = []doubtShown{}
	limit, err := limitOf(values.Get("limit"), defaultDoubts, maxDoubts)
	if err != nil {
		return list, err
	}
	message, number := "", -1
	if after := values.Get("after"); after != "" {
		var ok bool
		if message, number, ok = sluice.ParseSendID(after); !ok {
			return list, refusal(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", after)
		}
	}
	rows, err := store.InDoubt(r.Context(), message, number, limit+1)
	if err != nil {
		return list, err
	}
	for i := range rows[:min(limit, len(rows))] {
		list.Doubts = append(list.Doubts, shownDoubt(&rows[i]))
	}
	if len(rows) > limit {
		list.Next = list.Doubts[limit-1].Send
	}
	return list, nil
}

// doubts is GET /v1/ledger/doubts.
func (s *Server) doubts(_ http.ResponseWriter, r *http.Request, store sluice.LedgerStore) (int, any, error) {
	values, err := readQuery(r, []string{"after", "limit"})
	if err != nil {
		return 0, nil, err
	}
	list, err := listDoubts(r, store, values)
	return http.StatusOK, list, err
}

// decided is the answer to a decision.
type decided struct {
	Settled bool       `json:"settled"`
	Send    doubtShown `json:"send"`
}

// decide is POST /v1/ledger/doubts/{send}.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	who, err := s.admitted(w, r, key.LedgerWrite)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.rates.spend(who, 1)
	shown, err := s.takeDecision(w, r, &who)
	if err != nil {
		s.writeError(w, r, s.storeError(w, err))
		return
	}
	s.writeJSON(w, http.StatusOK, shown)
}

func (s *Server) takeDecision(w http.ResponseWriter, r *http.Request, who *key.Identity) (shown decided, err error) {
	var decision, note string
	err = s.readObject(r, maxDecisionBytes, func(text string) error {
		given, err := membersOf(text, "decision", "note")
		if err != nil {
			return err
		}
		return textsOf(given, map[string]*string{"decision": &decision, "note": &note})
	})
	decider := s.program.Services().Decider
	switch {
	case err != nil:
		return shown, err
	case decider == nil:
		return shown, errNotRunning
	case !slices.Contains(spool.Decisions, spool.Decision(decision)):
		return shown, refusal(sluice.CodeInvalid, "decision is %.32q, want one of %v", decision, spool.Decisions)
	case len(note) > spool.MaxNoteBytes || hasControl(note):
		return shown, refusal(sluice.CodeInvalid, "note: want at most %d bytes without control characters", spool.MaxNoteBytes)
	}
	row, settled, err := decider.Decide(r.Context(), r.PathValue("send"), spool.Decision(decision), fmt.Sprintf("key %s (%s)", who.ID, who.Name), note)
	if err != nil {
		return shown, err
	}
	s.log.Info("a mail in doubt was decided about", "id", idOf(w), "send", r.PathValue("send"), "decision", decision, "key", who.ID, "settled", settled)
	return decided{settled, shownDoubt(&row)}, nil
}
