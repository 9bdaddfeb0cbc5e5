package api

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/test/clocktest"
)

// The stream of the overview says something each second, and ends with its key.
func TestLive(t *testing.T) {
	x := startJourneys(t)
	id, text := addKey(t, x.store, "status:read")
	began := time.Now()
	url := strings.TrimSuffix(x.url, journeysPath) + livePath
	lines := x.stream(t, url, "Bearer "+text)
	for said := 0; said < 3; said++ {
		line, ok := <-lines
		if !ok && time.Since(began) < time.Minute { // the key was not looked up in time: the machine is busy
			lines, said = x.stream(t, url, "Bearer "+text), -1
			continue
		}
		if !ok || !strings.Contains(line, `"ready":`) {
			t.Fatalf("the stream says %q, %v", line, ok)
		}
	}
	if took := time.Since(began); took < liveEvery || took > 3*time.Minute {
		t.Errorf("three looks took %s", took)
	}
	if err := x.store.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if believeFor+lookKeyTimeout > 5*time.Second { // as the document says
		t.Errorf("a revoked key is believed for %s, and asked for for %s", believeFor, lookKeyTimeout)
	}
	began = time.Now()
	for range lines {
	}
	if took := time.Since(began); took > time.Minute { // 5 s, and a machine that is busy
		t.Errorf("the stream of a revoked key ended after %s", took)
	}
	var all []func()
	take := func(who string) {
		done, err := x.s.lives.take(who, "streams of a test")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done)
	}
	otherID, other := addKey(t, x.store, "status:read")
	for range maxLives / 2 { // all that one key may have
		take(otherID)
	}
	callJSON(t, url, "HEAD", "Bearer "+other, "", 503, nil)
	for i := range maxLives / 2 { // the rest
		take(fmt.Sprint(i))
	}
	_, third := addKey(t, x.store, "status:read")
	callJSON(t, url, "HEAD", "Bearer "+third, "", 503, nil)
	for _, done := range all {
		done()
	}
}

// slowProgram is a program whose state takes two seconds to look at.
type slowProgram struct {
	*program
	clock   *clocktest.Clock
	looks   atomic.Int32
	begun   chan struct{} // a look has begun
	release chan struct{} // closed: looks end
}

func (p *slowProgram) Stats() Stats {
	if p.looks.Add(1) == 1 {
		close(p.begun)
	}
	<-p.release
	p.clock.Move(2 * time.Second)
	return p.program.Stats()
}

// A look that takes longer than it is shown is shared by all who wait for it, and by who
// comes when it has ended.
func TestASlowLookIsShared(t *testing.T) {
	p := &slowProgram{program: &program{}, clock: clocktest.At(time.Unix(1_760_000_000, 0)), begun: make(chan struct{}), release: make(chan struct{})}
	s := New("", p, slog.New(slog.DiscardHandler), Options{Clock: p.clock})
	var all sync.WaitGroup
	all.Go(func() { s.lastOverview() })
	<-p.begun
	for range 8 {
		all.Go(func() { s.lastOverview() })
	}
	close(p.release)
	all.Wait()
	s.lastOverview()
	if n := p.looks.Load(); n != 1 {
		t.Errorf("ten callers cost %d looks", n)
	}
	p.clock.Move(overviewKept)
	if s.lastOverview(); p.looks.Load() != 2 {
		t.Error("a look that is old is shown again")
	}
}

// One caller has half of the places for streams, and gives them back.
func TestACallerHasHalfOfTheStreams(t *testing.T) {
	for name, s := range map[string]*seats{"events": New("", &program{}, slog.New(slog.DiscardHandler), Options{}).streams, "the overview": New("", &program{}, slog.New(slog.DiscardHandler), Options{}).lives} {
		var all []func()
		for _, who := range []string{"ann", "bob"} {
			for range s.most / 2 {
				done, err := s.take(who, "streams are open")
				if err != nil {
					t.Fatalf("%s: %s: %v", name, who, err)
				}
				all = append(all, done)
			}
			if _, err := s.take(who, "streams are open"); err == nil {
				t.Errorf("%s: %s has more than half", name, who)
			}
		}
		if _, err := s.take("cy", "streams are open"); err == nil {
			t.Errorf("%s: there are more than %d", name, s.most)
		}
		for _, done := range all {
			done()
		}
		if s.taken != 0 || len(s.by) != 0 {
			t.Errorf("%s: %d stay taken, by %v", name, s.taken, s.by)
		}
	}
}

// stream returns the data of Server-Sent Events, closed when they end.
func (x *journeys) stream(t *testing.T, url, bearer string) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", bearer)
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(res, err)
	}
	lines := make(chan string)
	go func() { // ends with the stream
		defer close(lines)
		defer res.Body.Close()
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	return lines
}
