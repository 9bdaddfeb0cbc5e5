package smtp

import (
	"errors"
	"sync/atomic"
	"testing"

	"sluice/mail"
	"sluice/test/sink"
)

// heldBy has envelopes held back once it is set.
func heldBy(all []mail.Envelope, held *atomic.Bool) {
	for i := range all {
		all[i].Go = func() error {
			if held.Load() {
				return errors.New("stopped since")
			}
			return nil
		}
	}
}

// A sender that does not want a mail any more is heard until its first octet is written,
// whatever the connection has waited for. What is held back is untried, by nobody's fault.
// It uses up none of the messages of the connection, which goes on.
func TestMailIsHeldBackUntilItIsBegun(t *testing.T) {
	for _, x := range []struct {
		name    string
		without []string
		at      sink.At // where the sender changes its mind
		want    string
	}{
		{"chunking, connecting", nil, sink.At{Step: sink.OnConnect, Message: -1}, "-----"},
		{"pipelining, connecting", modes[1].without, sink.At{Step: sink.OnConnect, Message: -1}, "-----"},
		{"lockstep, connecting", modes[2].without, sink.At{Step: sink.OnConnect, Message: -1}, "-----"},
		{"pipelining, behind a content", modes[1].without, sink.At{Step: sink.OnEnd, Message: 1}, "SSS--"}, // the third was begun with that content
		{"lockstep, behind a content", modes[2].without, sink.At{Step: sink.OnEnd, Message: 1}, "SS---"},
		{"lockstep, behind RSET", modes[2].without, sink.At{Step: sink.OnReset, Message: 0}, "F----"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var held atomic.Bool
			s := startSink(t, sink.Options{Without: x.without, Fault: func(at sink.At) sink.Act {
				if at.Step == x.at.Step && at.Message == x.at.Message {
					held.Store(true)
				}
				if x.at.Step == sink.OnReset && at.Step == sink.OnRcpt && at.Message == 0 {
					return sink.Act{Reply: "550 5.1.1 nobody, so that RSET is needed"}
				}
				return sink.Act{}
			}})
			r := newRelay(t, s.Addr(), Options{MaxMessages: 5})
			all := envelopes(5, 100)
			heldBy(all, &held)
			results := deliver(t, limit(t), r, all)
			if got := kinds(results); got != x.want {
				t.Errorf("%s, want %s", got, x.want)
			}
			compare(t, s, all, results)
			var again []mail.Envelope
			for i, one := range results {
				if one.Kind != mail.ResultUntried {
					continue
				}
				again = append(again, all[i])
				if one.Blame != mail.BlameNobody || one.Closed || one.Text != "stopped since" || one.Held == nil || !one.Connected {
					t.Errorf("mail %d: %+v", i, one)
				}
			}
			before := s.Received()
			held.Store(false)
			for _, one := range deliver(t, limit(t), r, again) {
				if one.Kind != mail.ResultSent {
					t.Errorf("then: %+v", one)
				}
			}
			if s.Received() != before+len(again) || s.Accepted() != 1 {
				t.Errorf("then %d mails more over %d connections", s.Received()-before, s.Accepted())
			}
		})
	}
}

// One that is held back in the middle of a window takes nothing from the others.
func TestOneMailOfAWindowIsHeldBack(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := startSink(t, sink.Options{Without: mode.without})
			r := newRelay(t, s.Addr(), Options{})
			all := envelopes(5, 100)
			all[2].Go = func() error { return errors.New("suppressed since") }
			results := deliver(t, limit(t), r, all)
			if got := kinds(results); got != "SS-SS" || s.Received() != 4 {
				t.Errorf("%s, %d arrived", got, s.Received())
			}
			compare(t, s, all, results)
		})
	}
}
