package smtp

import (
	"fmt"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/proxy"
	"sluice/test/sink"
)

// fault is one way in which a server fails.
type fault struct {
	name string
	act  sink.Act
}

// every fault that can strike at a step.
func faultsAt(step sink.Step) []fault {
	all := []fault{
		{"cut", sink.Act{Cut: sink.Unacted}},
		{"cut before the reply", sink.Act{Cut: sink.Unsaid}},
		{"cut in the reply", sink.Act{Cut: sink.Midreply}},
		{"cut behind the reply", sink.Act{Cut: sink.Said}},
		{"hang", sink.Act{Hang: true}},
		{"delay", sink.Act{Delay: 20 * time.Millisecond}},
	}
	for _, r := range []string{"421 4.3.2 shutting down", "451 4.3.0 later", "454 4.7.0 throttled", "550 5.1.1 nobody", "552 5.2.2 full"} {
		all = append(all, fault{r, sink.Act{Reply: r}}, fault{r + ", cut", sink.Act{Reply: r, Cut: sink.Said}})
	}
	if step != sink.OnBody {
		return all
	}
	all = nil
	for _, octets := range []int{0, 1, 100} {
		all = append(all,
			fault{fmt.Sprintf("cut behind %d octets", octets), sink.Act{Octets: octets}},
			fault{fmt.Sprintf("hang behind %d octets", octets), sink.Act{Octets: octets, Hang: true}},
			fault{fmt.Sprintf("421 behind %d octets", octets), sink.Act{Octets: octets, Reply: "421 4.4.2 too slow"}},
			fault{fmt.Sprintf("552 behind %d octets", octets), sink.Act{Octets: octets, Reply: "552 5.3.4 enough", Cut: sink.Said}})
	}
	return all
}

// Every fault at every step, for each way in which messages go out. Small
// messages are all under way at once, large ones are not. What is said of a
// message is what the server has counted. Afterwards the same relay carries
// mail again.
func TestEveryFaultAtEveryStep(t *testing.T) {
	steps := []sink.Step{sink.OnConnect, sink.OnHello, sink.OnReset, sink.OnMail, sink.OnRcpt, sink.OnData, sink.OnBody, sink.OnEnd}
	for _, mode := range modes {
		for _, octets := range []int{400, 400 << 10} {
			for _, step := range steps {
				for _, f := range faultsAt(step) {
					for _, message := range []int{0, 1, 4} {
						if step <= sink.OnHello && message > 0 || step == sink.OnData && mode.name == "chunking" {
							continue
						}
						if octets > 400 && (message != 1 || step != sink.OnRcpt && step < sink.OnBody) {
							continue // enough
						}
						t.Run(fmt.Sprintf("%s/%d/%s/%s/%d", mode.name, octets, step, f.name, message), func(t *testing.T) {
							t.Parallel()
							tryFault(t, mode.without, octets, step, f, message)
						})
					}
				}
			}
		}
	}
}

func tryFault(t *testing.T, without []string, octets int, step sink.Step, f fault, message int) {
	if step <= sink.OnHello {
		message = -1
	}
	s := startSink(t, sink.Options{Without: without, Fault: func(at sink.At) sink.Act {
		if at.Connection == 0 && at.Step == step && at.Message == message {
			return f.act
		}
		if step == sink.OnReset && at.Step == sink.OnRcpt && at.Connection == 0 {
			return sink.Act{Reply: "450 4.2.0 so that RSET is needed"}
		}
		return sink.Act{}
	}})
	opt := Options{}
	if f.act.Hang {
		short := 150 * time.Millisecond
		opt.Timeouts = Timeouts{Greeting: short, Command: short, Data: short, Block: short, End: short, Closing: short}
	}
	r := newRelay(t, s.Addr(), opt)
	all := envelopes(5, octets)
	results := deliver(t, limit(t), r, all)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(limit(t)); err != nil {
		t.Fatal(err)
	}
	compare(t, s, all, results)

	again := newRelay(t, s.Addr(), Options{})
	if got := kinds(deliver(t, limit(t), again, all[:1])); got != "S" {
		t.Errorf("the next session: %s", got)
	}
}

// compare holds the results against what the server has counted.
func compare(t *testing.T, s *sink.Sink, all []mail.Envelope, results []mail.Result) {
	t.Helper()
	for i, one := range results {
		n := s.Count(id(i))
		switch {
		case n > 1:
			t.Errorf("mail %d was taken %d times", i, n)
		case one.Kind == mail.ResultSent && n != 1:
			t.Errorf("mail %d is said to be sent, and was not taken: %+v (%s)", i, one, kinds(results))
		case one.Kind != mail.ResultSent && one.Kind != mail.ResultInDoubt && n != 0:
			t.Errorf("mail %d was taken, and is said not to be: %+v (%s)", i, one, kinds(results))
		case one.Closed && one.Kind != mail.ResultDeferred && one.Kind != mail.ResultUntried:
			t.Errorf("mail %d: another may be asked, although it may be taken: %+v (%s)", i, one, kinds(results))
		case one.Kind != mail.ResultSent && one.Text == "":
			t.Errorf("mail %d: no reason is given: %+v", i, one)
		case len(one.Text) > mail.MaxReplyBytes:
			t.Errorf("mail %d: the text has %d bytes", i, len(one.Text))
		}
	}
}

// The connection is cut behind every so many octets, to the server and from it,
// in clear and under TLS. The cut is on the way, where neither end knows what
// the other has seen.
func TestCutsAtAnyOctet(t *testing.T) {
	ca := newAuthority(t)
	server := ca.server(t, "relay.test")
	for _, mode := range modes {
		for _, secure := range []bool{false, true} {
			for _, direction := range []proxy.Direction{proxy.ToServer, proxy.ToClient} {
				t.Run(fmt.Sprintf("%s/TLS %v/%s", mode.name, secure, direction), func(t *testing.T) {
					t.Parallel()
					so, ro := sink.Options{Without: mode.without}, Options{}
					if secure {
						so.TLS = server
						ro = Options{TLS: TLSStart, ServerName: "relay.test", Roots: ca.pool()}
					}
					step := int64(29)
					if direction == proxy.ToClient {
						step = 11
					}
					for octets := step; ; octets += step {
						if !tryCut(t, so, ro, proxy.Rule{Direction: direction, Bytes: octets}) {
							return // that is more than there are
						}
					}
				})
			}
		}
	}
}

// tryCut reports whether the rule has struck.
func tryCut(t *testing.T, so sink.Options, ro Options, rule proxy.Rule) bool {
	s := startSink(t, so)
	proxy, err := proxy.New("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	armed, err := proxy.Arm(rule)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, proxy.Addr(), ro)
	all := envelopes(4, 200)
	results := deliver(t, limit(t), r, all)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(limit(t)); err != nil {
		t.Fatal(err)
	}
	compare(t, s, all, results)
	select {
	case <-armed.Fired():
		return true
	default:
		if got := kinds(results); got != "SSSS" {
			t.Errorf("%s, and nothing was cut", got)
		}
		return false
	}
}
