package smtp

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/clocktest"
	"sluice/test/sink"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, x := range []struct {
		opt  Options
		says string // empty: it is good
	}{
		{Options{Name: "a", Address: "relay.test:25"}, ""},
		{Options{Name: "a", Address: "127.0.0.1:25", TLS: TLSNone}, ""},
		{Options{Name: "a", Address: "[::1]:25", TLS: TLSNone}, ""},
		{Options{Name: "a", Address: "localhost:25", TLS: TLSNone}, ""},
		{Options{Name: "a", Network: "unix", Address: "/tmp/x", TLS: TLSNone}, ""},
		{Options{Name: "a", Address: "192.0.2.1:25", TLS: TLSNone, Insecure: true}, ""},
		{Options{Name: "a", Address: "192.0.2.1:25", TLS: TLSNone}, "not this machine"},
		{Options{Name: "a", Address: "127.0.0.1:25", TLS: TLSNone, User: "u", Password: "secret"}, "never sent without TLS"},
		{Options{Name: "a", Address: "192.0.2.1:25", TLS: TLSNone, Insecure: true, User: "u"}, "never sent without TLS"},
		{Options{Name: "a", Network: "unix", Address: "/tmp/x"}, "whose certificate"},
		{Options{Address: "relay.test:25"}, "a name and an address"},
		{Options{Name: "a"}, "a name and an address"},
		{Options{Name: "a", Address: "relay.test"}, "want host:port"},
		{Options{Name: "a", Address: "relay.test:25", Network: "udp"}, "want tcp or unix"},
		{Options{Name: "a", Address: "relay.test:25", TLS: "maybe"}, "want starttls"},
		{Options{Name: "a", Address: "relay.test:25", Window: 1000}, "window"},
		{Options{Name: "a", Address: "relay.test:25", Connections: -1}, "connections"},
		{Options{Name: "a", Address: "relay.test:25", MaxMessages: -1}, "max messages"},
		{Options{Name: "a", Address: "relay.test:25", Hello: "a b"}, "hello"},
		{Options{Name: "a", Address: "relay.test:25", Hello: "a\r\nRSET"}, "hello"},
	} {
		_, err := New(x.opt)
		if (err == nil) != (x.says == "") || err != nil && (!strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", x.opt, err, x.says)
		}
	}
	r, err := New(Options{Name: "a", Address: "relay.test:25", Trusted: true})
	if err != nil || r.Name() != "a" || r.Window() != TrustedWindow || r.Workers() != DefaultConnections || r.opt.Timeouts.End != 10*time.Minute || r.opt.Timeouts.Probe != TimeoutProbe {
		t.Errorf("%v: %+v", err, r)
	}
	r, err = New(Options{Name: "a", Address: "relay.test:25", Timeouts: Timeouts{Command: time.Second}})
	if err != nil || r.opt.Timeouts.Probe != time.Second {
		t.Errorf("with a short time for commands: %v: %+v", err, r)
	}
}

func TestConnectionsAreBoundedAndKept(t *testing.T) {
	s := startSink(t, sink.Options{})
	r := newRelay(t, s.Addr(), Options{Connections: 3, Idle: time.Hour})
	all := envelopes(20*10, 200)
	var callers sync.WaitGroup
	for k := range 20 {
		callers.Go(func() {
			if got := kinds(deliver(t, limit(t), r, all[10*k:10*k+10])); got != "SSSSSSSSSS" {
				t.Error(got)
			}
		})
	}
	callers.Wait()
	if s.Accepted() > 3 || s.Received() != 200 || s.Duplicates() != 0 {
		t.Errorf("%d connections, %d mails, %d twice", s.Accepted(), s.Received(), s.Duplicates())
	}
}

func TestConnectionsEnd(t *testing.T) {
	t.Run("when idle", func(t *testing.T) {
		s := startSink(t, sink.Options{})
		r := newRelay(t, s.Addr(), Options{Idle: time.Millisecond})
		deliver(t, limit(t), r, envelopes(1, 100))
		if err := s.Drain(limit(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("after their messages", func(t *testing.T) {
		s := startSink(t, sink.Options{})
		r := newRelay(t, s.Addr(), Options{MaxMessages: 3})
		if got := kinds(deliver(t, limit(t), r, envelopes(8, 100))); got != "SSSSSSSS" || s.Accepted() != 3 {
			t.Errorf("%s over %d connections", got, s.Accepted())
		}
		deliver(t, limit(t), r, envelopes(2, 100))
		if s.Accepted() != 4 {
			t.Errorf("%d connections after two more", s.Accepted())
		}
	})
	t.Run("with the relay", func(t *testing.T) {
		s := startSink(t, sink.Options{})
		r := newRelay(t, s.Addr(), Options{Idle: time.Hour})
		deliver(t, limit(t), r, envelopes(1, 100))
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Drain(limit(t)); err != nil {
			t.Error(err)
		}
	})
}

// How a server answers QUIT is of no concern to the mails that go by the next connection.
func TestQuitThatFailsCostsNoMail(t *testing.T) {
	for _, mode := range modes {
		for name, act := range map[string]sink.Act{
			"closed without a reply": {Cut: sink.Unsaid},
			"421":                    {Reply: "421 4.3.2 shutting down"},
			"no reply":               {Hang: true},
		} {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				s := startSink(t, sink.Options{Without: mode.without, Fault: func(at sink.At) sink.Act {
					if at.Step == sink.OnQuit && at.Connection < 2 {
						return act
					}
					return sink.Act{}
				}})
				opt := Options{MaxMessages: 2}
				if act.Hang {
					opt.Timeouts.Closing = 50 * time.Millisecond
				}
				r := newRelay(t, s.Addr(), opt)
				results := deliver(t, limit(t), r, envelopes(5, 100))
				if got := kinds(results); got != "SSSSS" || s.Accepted() != 3 {
					t.Errorf("%s over %d connections; the last: %+v", got, s.Accepted(), results[4])
				}
			})
		}
	}
}

// A connection that the server has closed while nobody used it costs no mail.
func TestConnectionsThatEndedUnused(t *testing.T) {
	for name, x := range map[string]struct {
		act  sink.Act
		at   sink.Step
		wait time.Duration
	}{
		"closed":                {sink.Act{Cut: sink.Said}, sink.OnEnd, 0},
		"gone, found by asking": {sink.Act{Cut: sink.Unsaid}, sink.OnNoop, 2 * time.Second},
		"421, found by asking":  {sink.Act{Reply: "421 4.4.2 idle too long"}, sink.OnNoop, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSink(t, sink.Options{Fault: func(at sink.At) sink.Act {
				if at.Connection == 0 && at.Step == x.at {
					return x.act
				}
				return sink.Act{}
			}})
			clock := clocktest.At(time.Unix(1e9, 0))
			r := newRelay(t, s.Addr(), Options{Clock: clock, Idle: time.Hour})
			all := envelopes(5, 100)
			if got := kinds(deliver(t, limit(t), r, all[:1])); got != "S" {
				t.Fatal(got)
			}
			if x.at == sink.OnEnd {
				if err := s.Drain(limit(t)); err != nil {
					t.Fatal(err)
				}
			}
			clock.Move(x.wait)
			if got := kinds(deliver(t, limit(t), r, all[1:])); got != "SSSS" || s.Accepted() != 2 {
				t.Errorf("%s, %d connections", got, s.Accepted())
			}
		})
	}
}

// A connection whose other side has vanished costs the time of a probe, not that of a
// command: its window is marked, and goes by another.
func TestConnectionThatVanished(t *testing.T) {
	var connected atomic.Int64
	address := answering(t, func(_ net.Conn, verb string) string {
		switch verb {
		case "NOOP":
			return ""
		case "CONNECT":
			connected.Add(1)
		}
		return polite(verb)
	})
	clock := clocktest.At(time.Unix(1e9, 0))
	r := newRelay(t, address, Options{Clock: clock, Idle: time.Hour, Timeouts: Timeouts{Probe: 50 * time.Millisecond}})
	all := envelopes(3, 100)
	if got := kinds(deliver(t, limit(t), r, all[:1])); got != "S" {
		t.Fatal(got)
	}
	clock.Move(2 * probeAfter)
	if got := kinds(deliver(t, limit(t), r, all[1:])); got != "SS" || connected.Load() != 2 {
		t.Errorf("%s over %d connections", got, connected.Load())
	}
}

// A server that does not answer leaves everything untried, and it is the
// route's fault.
func TestNobodyThere(t *testing.T) {
	s := startSink(t, sink.Options{})
	address := s.Addr()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, address, Options{})
	for _, one := range deliver(t, limit(t), r, envelopes(3, 100)) {
		if one.Kind != mail.ResultUntried || one.Blame != mail.BlameRoute || !one.Closed || !strings.Contains(one.Text, "refused") {
			t.Errorf("%+v", one)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sink")
	startSink(t, sink.Options{Network: "unix", Address: path})
	r := newRelay(t, path, Options{Network: "unix"})
	for range 2 {
		if results := deliver(t, limit(t), r, envelopes(3, 100)); kinds(results) != "SSS" || results[0].Remote != path {
			t.Errorf("%+v", results)
		}
	}
}

// When the context ends, Deliver returns; what it says of each message is true.
func TestContextEnds(t *testing.T) {
	for _, mode := range modes {
		for _, step := range []sink.Step{sink.OnConnect, sink.OnMail, sink.OnRcpt, sink.OnBody, sink.OnEnd} {
			for _, octets := range []int{300, 1 << 20} {
				t.Run(mode.name+" "+step.String(), func(t *testing.T) {
					ctx, cancel := context.WithCancel(limit(t))
					defer cancel()
					s := startSink(t, sink.Options{Without: mode.without, Fault: func(at sink.At) sink.Act {
						if at.Step == step && (at.Message == 1 || step == sink.OnConnect) {
							cancel()
							return sink.Act{Hang: true, Octets: 100}
						}
						return sink.Act{}
					}})
					r := newRelay(t, s.Addr(), Options{})
					all := envelopes(5, octets)
					results := deliver(t, ctx, r, all)
					if err := s.Drain(limit(t)); err != nil {
						t.Fatal(err)
					}
					compare(t, s, all, results)
					for i, one := range results {
						if one.Kind == mail.ResultUntried && one.Blame != mail.BlameNobody {
							t.Errorf("mail %d: %+v", i, one)
						}
					}
				})
			}
		}
	}
	t.Run("before", func(t *testing.T) {
		s := startSink(t, sink.Options{})
		r := newRelay(t, s.Addr(), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := kinds(deliver(t, ctx, r, envelopes(3, 100))); got != "---" {
			t.Error(got)
		}
	})
	t.Run("while all connections are in use", func(t *testing.T) {
		r := newRelay(t, "127.0.0.1:1", Options{Connections: 1})
		r.slots <- struct{}{}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("enough"))
		defer cancel()
		if got := kinds(deliver(t, ctx, r, envelopes(3, 100))); got != "---" {
			t.Error(got)
		}
	})
}

// A server may write long replies and read no further until they are taken.
// However large the window is, and whatever the buffers between, both go on.
func TestNobodyWaitsForEachOther(t *testing.T) {
	long := strings.Repeat("250-"+strings.Repeat("word ", 90)+"\r\n", 60) + "250 that was it"
	s := startSink(t, sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnMail || at.Step == sink.OnRcpt || at.Step == sink.OnEnd {
			return sink.Act{Reply: long}
		}
		return sink.Act{}
	}})
	r := newRelay(t, s.Addr(), Options{Window: MaxWindow, Timeouts: Timeouts{Block: 10 * time.Second}})
	results := deliver(t, limit(t), r, envelopes(MaxWindow, 100<<10))
	if got := kinds(results); got != strings.Repeat("S", MaxWindow) {
		t.Errorf("%s: %+v", got, results[len(results)-1])
	}
}

// Content that takes longer to write than its reply may take to come is no
// reason to give up. The time of a reply begins when all is handed over.
func TestTimeOfReplyBeginsWithTheLastOctet(t *testing.T) {
	s := startSink(t, sink.Options{})
	r := newRelay(t, s.Addr(), Options{})
	c, err := r.dial(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.quit()
	c.await(time.Millisecond)
	c.need = c.out.added + 5
	got := make(chan error, 1)
	go func() {
		_, err := c.in.next(nil)
		got <- err
	}()
	for range 20 { // each is longer than the reply may take
		select {
		case err := <-got:
			t.Fatalf("it gave up while content was written: %v", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	c.out.handed.Add(5)
	var late net.Error
	if err := <-got; !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("then: %v", err)
	}
}
