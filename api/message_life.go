package api

import (
	"context"
	"encoding/json"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/user/profile"
)

// sendShown is what became of a message for one recipient.
type sendShown struct {
	Send     string   `json:"send"`
	To       string   `json:"to"`
	UserID   string   `json:"user_id,omitempty"`
	State    string   `json:"state"`
	Attempts int      `json:"attempts"`
	Due      string   `json:"due,omitempty"`
	Updated  string   `json:"updated"`
	Route    string   `json:"route,omitempty"`
	Reply    string   `json:"reply,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	WaitsFor []string `json:"waits_for,omitempty"`

	// When it was opened and clicked first, by anybody and by a person.
	Opened       string `json:"first_open,omitempty"`
	HumanOpened  string `json:"first_human_open,omitempty"`
	Clicked      string `json:"first_click,omitempty"`
	HumanClicked string `json:"first_human_click,omitempty"`

	Life []lifeShown `json:"life"`
}

// lifeShown is what happened to a send once: a line of its row's life, with times
// as they are written everywhere else.
type lifeShown struct {
	At      string `json:"at,omitempty"`
	Event   string `json:"event,omitempty"`
	Was     string `json:"was,omitempty"`
	State   string `json:"state,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Due     string `json:"due,omitempty"`
	Route   string `json:"route,omitempty"`
	Remote  string `json:"remote,omitempty"`
	Code    int    `json:"code,omitempty"`
	Reply   string `json:"reply,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Late    bool   `json:"late,omitempty"`
	LeftOut int    `json:"left_out,omitempty"`
}

// shownLife reads a row's life. A line that cannot be read is left out: nobody
// has written it so.
func shownLife(life string) []lifeShown {
	shown := []lifeShown{}
	for text := range strings.Lines(life) {
		var line struct {
			lifeShown
			At  int64 `json:"at"` // ms since 1970
			Due int64 `json:"due"`
		}
		if json.Unmarshal([]byte(text), &line) != nil {
			continue
		}
		line.lifeShown.At, line.lifeShown.Due = timeText(line.At), timeText(line.Due)
		shown = append(shown, line.lifeShown)
	}
	return shown
}

// messageShown is the life of a message.
type messageShown struct {
	ID       string          `json:"id"`
	From     string          `json:"from"`
	Priority string          `json:"priority"`
	Class    string          `json:"class"`
	AppID    string          `json:"app_id,omitempty"`
	Tags     []string        `json:"tags"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Accepted string          `json:"accepted"`
	Sends    []sendShown     `json:"sends"`
}

func noMessage(id string) error {
	return refusal(sluice.CodeNotFound, "there is no message %.64q; one that was just accepted may take a moment to be seen", id)
}

// cancelledMessage is the answer of DELETE.
type cancelledMessage struct {
	Cancelled int `json:"cancelled"`
	Left      int `json:"left"`
	Open      int `json:"open"`
}

// cancelMessage is DELETE /v1/messages/{id}.
func (q *request) cancelMessage() (any, error) {
	id := q.PathValue("id")
	if !sluice.ValidMessageID(id) {
		return nil, noMessage(id)
	}
	what, err := q.Canceller.Cancel(q.Context(), id)
	return cancelledMessage(what), err
}

// messageLife is GET /v1/messages/{id}.
func (q *request) messageLife() (shown any, err error) {
	id := q.PathValue("id")
	if !sluice.ValidMessageID(id) {
		return nil, noMessage(id)
	}
	err = q.lookAtSends(func(ctx context.Context) error {
		rows, err := q.Sends.MessageSends(ctx, id)
		if err == nil && len(rows) == 0 {
			err = noMessage(id)
		}
		if err == nil {
			shown = q.shownMessage(id, rows)
		}
		return err
	})
	return shown, err
}

func (q *request) shownMessage(id string, rows []mail.SendRow) messageShown {
	first := &rows[0]
	shown := messageShown{
		ID: id, From: first.From, Priority: first.Priority.String(), Class: first.Class.String(), AppID: first.App, Tags: []string{},
		Metadata: json.RawMessage(first.Metadata), Accepted: profile.TimeText(first.AcceptedMillis), Sends: make([]sendShown, len(rows)),
	}
	if first.Tags != "" {
		shown.Tags = strings.Split(first.Tags, ",")
	}
	for i := range rows {
		shown.Sends[i] = shownSend(&rows[i], id)
		if r := &rows[i]; r.State == mail.SendWaiting || r.State == mail.SendInDoubt && r.DueMillis != 0 {
			shown.Sends[i].WaitsFor = q.WaitsFor(rows[i].To, rows[i].Class, rows[i].AskedRoute())
		}
	}
	return shown
}

func shownSend(row *mail.SendRow, message string) sendShown {
	send := mail.Send{Message: message, Number: row.Number}
	shown := sendShown{
		Send: send.ID(), To: row.To, UserID: row.User, State: row.State.String(), Attempts: row.Attempts, Updated: profile.TimeText(row.UpdatedMillis),
		Route: row.Route, Reply: row.Reply, Reason: row.Reason, Life: shownLife(row.Life),
		Opened: timeText(row.FirstOpenMillis), HumanOpened: timeText(row.FirstHumanOpenMillis), Clicked: timeText(row.FirstClickMillis), HumanClicked: timeText(row.FirstHumanClickMillis),
	}
	if row.DueMillis != 0 && row.State == mail.SendWaiting {
		shown.Due = profile.TimeText(row.DueMillis)
	}
	return shown
}
