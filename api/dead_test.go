package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// A replay that cannot be done now is another answer than one that never can.
func TestReplayRefused(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	defer stop(t, s)
	db := p.keys.(*sqlstore.Store)
	prepared, err := db.Prepare(&store.Effect{Dead: []sluice.DeadLetter{{Source: "log", Form: sluice.FormItem, Reason: "no", TimeMillis: 1, Payload: []byte("x")}}})
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, text := addKey(t, db, "ledger:write")
	for want, err := range map[int]error{
		503: fmt.Errorf("replay dead letter 1: %w", errors.New("connection refused")),
		409: refusal(sluice.CodeConflict, "replay dead letter 1: its source is gone"),
		404: refusal(sluice.CodeNotFound, "somebody has dropped it"),
		204: nil,
	} {
		p.replay = func() error { return err }
		callJSON(t, url+deadPath+"/1/replay", "POST", "Bearer "+text, "", want, nil)
	}
}

// A dead letter that has the link of an opt-in shows its payload only to who may ask for one.
func TestDeadLettersHideLinks(t *testing.T) {
	x := startJourneys(t)
	event := sluice.Event{Kind: sluice.KindSystem, Name: "optin_requested", ID: "e", TimeMillis: 1, Email: "ann@example.com", Properties: `{"form":"f","confirm_url":"https://mail.example.com/optin/confirm?t=AQ"}`}
	e := store.Effect{Dead: []sluice.DeadLetter{
		{Source: "log", Form: sluice.FormItem, Reason: "no", TimeMillis: 1, Payload: sluice.AppendEvent(nil, &event)},
		{Source: "log", Form: sluice.FormItem, Reason: "no", TimeMillis: 1, Payload: []byte("x")},
	}}
	prepared, err := x.store.Prepare(&e)
	if err == nil {
		_, err = x.store.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSuffix(x.url, journeysPath) + deadPath
	_, viewer := addKey(t, x.store, "status:read")
	_, asker := addKey(t, x.store, "status:read", "optin:write")
	for _, tt := range []struct {
		path, key string
		shown     bool
	}{{"/1", viewer, false}, {"/1", asker, true}, {"/2", viewer, true}} {
		var d deadShown
		callJSON(t, at+tt.path, "GET", "Bearer "+tt.key, "", 200, &d)
		if payload, err := base64.StdEncoding.DecodeString(d.Payload); err != nil || len(payload) > 0 != tt.shown || d.PayloadBytes == 0 {
			t.Errorf("%s: %q of %d bytes, %v", tt.path, payload, d.PayloadBytes, err)
		}
	}
}
