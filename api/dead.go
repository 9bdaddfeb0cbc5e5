package api

import (
	"encoding/base64"
	"strconv"

	"sluice"
	"sluice/lib/key"
	"sluice/user/consent"
)

// Paths of dead letters.
const (
	deadPath       = "/v1/dead"
	deadLetterPath = deadPath + "/{id}"

	maxDeadPage     = 200
	maxPayloadShown = 64 << 10 // bytes
)

// deadShown is a dead letter in an answer. Payload, in base64, is cut at maxPayloadShown,
// and left out if it may have a link that confirms an opt-in, which the caller may not see.
type deadShown struct {
	ID           int64  `json:"id"`
	Time         string `json:"time"`
	Source       string `json:"source"`
	Form         string `json:"form"`
	Partition    int    `json:"partition"`
	Reason       string `json:"reason"`
	Payload      string `json:"payload,omitempty"`
	PayloadBytes int    `json:"payload_bytes,omitempty"`
}

func shownDead(d *sluice.DeadLetter) deadShown {
	return deadShown{ID: d.ID, Time: timeText(d.TimeMillis), Source: d.Source, Form: string(d.Form), Partition: d.Place.Partition, Reason: d.Reason}
}

// listDead is GET /v1/dead, the oldest first.
func (q *request) listDead() (any, error) {
	after, err := q.query.number("after", 0, maxExactNumber)
	if err != nil {
		return nil, err
	}
	return readList(q.query, "dead_letters", maxDeadPage, maxDeadPage, func(limit int) ([]sluice.DeadLetter, error) {
		return q.DeadLetters.DeadLetters(q.Context(), int64(after), limit)
	}, shownDead, func(d *sluice.DeadLetter) string { return strconv.FormatInt(d.ID, 10) })
}

// deadLetter is the one that a path names.
func (q *request) deadLetter() (sluice.DeadLetter, error) {
	id, err := strconv.ParseInt(q.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return sluice.DeadLetter{}, refusal(sluice.CodeNotFound, "%.32q is no dead letter, want its number", q.PathValue("id"))
	}
	return q.DeadLetters.DeadLetter(q.Context(), id)
}

// showDead is GET /v1/dead/{id}.
func (q *request) showDead() (any, error) {
	d, err := q.deadLetter()
	if err != nil {
		return nil, err
	}
	shown := shownDead(&d)
	shown.PayloadBytes = len(d.Payload)
	if q.who.May(key.OptInWrite) || !consent.HasLink(d.Payload) {
		shown.Payload = base64.StdEncoding.EncodeToString(d.Payload[:min(len(d.Payload), maxPayloadShown)])
	}
	return shown, nil
}

// dropDead is DELETE /v1/dead/{id}.
func (q *request) dropDead() (any, error) {
	d, err := q.deadLetter()
	if err != nil {
		return nil, err
	}
	q.says(d.Source + ": " + d.Reason)
	return nil, q.DeadLetters.DropDeadLetter(q.Context(), d.ID)
}

// replayDead is POST /v1/dead/{id}/replay.
func (q *request) replayDead() (any, error) {
	d, err := q.deadLetter()
	if err != nil {
		return nil, err
	}
	q.says(d.Source + ": " + d.Reason)
	if err := q.Replay(q.Context(), d.ID); err != nil {
		return nil, q.s.notAccepted(q.w, err, "Replay it again: within a day it is applied once")
	}
	return nil, nil
}
