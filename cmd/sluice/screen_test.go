package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api"
)

// On a terminal a frame is drawn over the one before it, in one write, none of its
// lines is wrapped, and it never scrolls.
func TestScreen(t *testing.T) {
	var out buffer
	s := screen{w: &out, terminal: true}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("%d %s", i, strings.Repeat("ä", 200)))
	}
	s.draw(append(many, "the last"))
	first := out.String()
	if n := strings.Count(first, "\n"); n != screenLines-1 || !strings.HasSuffix(first, "the last\x1b[K\n\x1b[0J") {
		t.Errorf("%d lines, the end is %q", n, first[len(first)-40:])
	}
	for line := range strings.Lines(first) {
		if n := len([]rune(strings.TrimSuffix(line, "\x1b[K\n"))); n > screenColumns {
			t.Errorf("a line of %d characters", n)
		}
	}
	s.draw([]string{"one", "two"})
	if second := strings.TrimPrefix(out.String(), first); second != fmt.Sprintf("\x1b[%dAone\x1b[K\ntwo\x1b[K\n\x1b[0J", screenLines-1) {
		t.Errorf("drawn over it: %q", second)
	}
}

// A frame shows who holds mail up, what is not known as that, and a program that
// answers no more as it was when it last did.
func TestTopFrame(t *testing.T) {
	left := 7
	look := &topLook{ledger: &api.Ledger{OffBy: 2, Compared: true}, status: api.Status{
		Version: "1", Process: "p\x1b[2J", Reasons: []string{"redis: away"}, MarketingStopped: true, LagSeconds: 0.25, Later: -1,
		Lanes: []api.LaneStatus{{Priority: "high", Waiting: 1234567, OldestSeconds: 600}},
	}}
	for i := range 12 {
		look.status.Routes = append(look.status.Routes, api.RouteStatus{Route: fmt.Sprintf("route-%d", i), Breaker: "open", Mails: int64(i), PaceShare: 0.5, LeftToday: &left})
	}
	look.profile.Routes = []api.RouteProfile{{Route: "route-11", LastMinute: api.SpanProfile{Mails: 5, Stages: []api.StageProfile{
		{Stage: "lane", SharePercent: 90}, {Stage: "wait", AttemptSharePercent: 94.9, MeanSeconds: 0.05, P99Seconds: 0.2}, {Stage: "mark", AttemptSharePercent: 5.1}}}}}
	v := &topView{base: "http://x", routes: make(map[string]*rate)}
	now := time.Unix(1_800_000_000, 0)
	v.frame(look, nil, now)
	for i := range look.status.Routes {
		look.status.Routes[i].Mails *= 101
	}
	look.status.Accepted = 5000
	text := strings.Join(v.frame(look, nil, now.Add(time.Second)), "\n")
	for _, want := range []string{"NOT READY: redis: away   MARKETING MAIL IS STOPPED", "accepted      5,000/s", "lag 250.0 ms", "1,234,567  10 min", "LEDGER DOES NOT ADD UP, BY 2",
		"route-11         open            1,100   50 %          7", "wait      94.9 % ################### ", "mean 50.0 ms  p99 200.0 ms", "and 4 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("the frame lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "route-3 ") {
		t.Errorf("the frame:\n%q", text)
	}
	if text = strings.Join(v.frame(nil, errors.New("refused"), now.Add(2*time.Second)), "\n"); !strings.Contains(text, "DOES NOT ANSWER: refused") || !strings.Contains(text, "1,234,567") {
		t.Errorf("without an answer:\n%s", text)
	}
}
