package api

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// The shares of a route add up to 100, with the lane and without it, in answers
// as the document describes them. Only keys that may watch get any.
func TestProfile(t *testing.T) {
	s, url := start(t, &program{stats: fullStats()})
	status, _, body := do(t, "GET", url+profilePath)
	var shown Profile
	if err := json.Unmarshal([]byte(body), &shown); err != nil || status != 200 || len(shown.Routes) != 1 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	r := &shown.Routes[0]
	for name, span := range map[string]*SpanProfile{"last minute": &r.LastMinute, "since start": &r.SinceStart} {
		all, attempt := 0.0, 0.0
		for _, stage := range span.Stages {
			all, attempt = all+stage.SharePercent, attempt+stage.AttemptSharePercent
		}
		if math.Abs(all-100) > 0.001 || math.Abs(attempt-100) > 0.001 || span.Mails != 3 {
			t.Errorf("%s: %d mails, the shares are %v and %v", name, span.Mails, all, attempt)
		}
	}
	if r.Route != "relay" || r.Results["sent"] != 3 || r.LastMinute.MailsPerSecond != 0.06 {
		t.Errorf("%s", body)
	}
	if status, _, body := do(t, "GET", url+profilePath+"?route=relay"); status != 400 {
		t.Errorf("with a query: %d %s", status, body)
	}
	status, _, body = do(t, "GET", url+statusPath)
	var now Status
	if err := json.Unmarshal([]byte(body), &now); err != nil || status != 200 || now.Accepted != 11 || len(now.Routes) != 1 || *now.Routes[0].LeftToday != 7 ||
		len(now.Lanes) != 3 || now.Lanes[0] != (LaneStatus{"high", 4, 1.5}) || now.LagSeconds != 1 || !now.Ready {
		t.Errorf("%d %s %v", status, body, err)
	}
	s.exposure.loopback = false // as if other machines reached it
	for _, path := range []string{profilePath, statusPath} {
		if status, _, body := do(t, "GET", url+path); status != 401 || !strings.Contains(body, "unauthorized") {
			t.Errorf("%s without a key: %d %s", path, status, body)
		}
	}
}

// A program that sends nothing has an empty profile.
func TestProfileOfNothing(t *testing.T) {
	_, url := start(t, &program{})
	if status, _, body := do(t, "GET", url+profilePath); status != 200 || !strings.Contains(body, `"routes":[]`) {
		t.Errorf("%d %s", status, body)
	}
}
