package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
)

// Paths of what an operator does with the mail that waits.
const (
	sendingPath = "/v1/sending"

	maxSendingBytes = 8 << 10 // of a body
	maxStopNote     = 500     // bytes
	maxPurge        = 10_000  // sends of a request
)

// Operator stops mail, lets it go on and purges it. A spool.Operator is one.
type Operator interface {
	Stop(ctx context.Context, s mail.Selector, note string) error
	Resume(ctx context.Context, s mail.Selector) (was bool, err error)
	Stopped(ctx context.Context) (map[string]string, error)
	Purge(ctx context.Context, s mail.Selector, after string, most int, count bool) (n int, next string, err error)
}

// stopShown is something that is stopped.
type stopShown struct {
	By    string `json:"by"`
	Value string `json:"value"`
	Class string `json:"class,omitempty"`
	Note  string `json:"note"`
}

// showSending is GET /v1/sending.
func (q *request) showSending() (any, error) {
	names, err := q.Operator.Stopped(q.Context())
	if err != nil {
		return nil, err
	}
	list := struct {
		Stopped []stopShown `json:"stopped"`
	}{[]stopShown{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if sel, ok := mail.ParseSelector(name); ok {
			shown := stopShown{By: sel.By, Value: sel.Value, Note: names[name]}
			if sel.Class != 0 {
				shown.Class = sel.Class.String()
			}
			list.Stopped = append(list.Stopped, shown)
		}
	}
	return list, nil
}

// pauseSending is POST /v1/sending/pause.
func (q *request) pauseSending() (any, error) {
	var sel mail.Selector
	note := ""
	err := q.readSelected(&sel, field{"note", &note})
	if err == nil && (len(note) > maxStopNote || hasControl(note)) {
		err = refusal(sluice.CodeInvalid, "note: want at most %d bytes without control characters", maxStopNote)
	}
	if err == nil {
		err = q.Operator.Stop(q.Context(), sel, note)
	}
	if errors.Is(err, sluice.ErrFull) {
		most, beside := sel.StopBound()
		err = refusal(sluice.CodeInvalid, "%d things are stopped by %s already, the most that can be; let some go on", most, strings.Join(beside, " and "))
	}
	return map[string]bool{"stopped": true}, err
}

// resumeSending is POST /v1/sending/resume.
func (q *request) resumeSending() (any, error) {
	var sel mail.Selector
	if err := q.readSelected(&sel); err != nil {
		return nil, err
	}
	was, err := q.Operator.Resume(q.Context(), sel)
	return map[string]bool{"was_stopped": was}, err
}

// purged is the answer of a purge.
type purged struct {
	Cancelled int    `json:"cancelled"`
	Next      string `json:"next,omitempty"`
}

// purgeSending is POST /v1/sending/purge. It does a bounded part of it.
func (q *request) purgeSending() (any, error) {
	var sel mail.Selector
	after, limit := "", maxPurge
	if err := q.readSelection(&sel, field{"after", &after}, field{"limit", number{&limit, maxPurge}}); err != nil {
		return nil, err
	}
	n, next, err := q.Operator.Purge(q.Context(), sel, after, limit, false)
	return purged{n, next}, err
}

// readSelected is readSelection by what mail can be stopped by.
func (q *request) readSelected(sel *mail.Selector, more ...field) error {
	err := q.readSelection(sel, more...)
	if err == nil && !sel.Stops() {
		err = refusal(sluice.CodeInvalid, "by is %q, which a purge knows alone; want one of %s", sel.By, strings.Join(mail.SelectorWords, ", "))
	}
	return err
}

// readSelection reads a body that says which mail is meant, and what more there may be.
func (q *request) readSelection(sel *mail.Selector, more ...field) (err error) {
	by, value, class := "", "", ""
	if _, err = q.object(maxSendingBytes, append(more, field{"by", &by}, field{"value", &value}, field{"class", &class})...); err != nil {
		return err
	}
	if *sel, err = mail.NewSelector(by, value); err == nil {
		*sel, err = sel.Of(class)
	}
	if err != nil {
		return refusal(sluice.CodeInvalid, "%v", err)
	}
	return nil
}
