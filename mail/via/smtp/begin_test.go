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

// A sender that does not want a mail any more is heard until its content is written,
// whatever the connection has waited for. What is held back is untried, by nobody's fault.
// Before its first octet it uses up none of the messages of the connection, which goes on.
// Behind DATA the connection ends.
func TestMailIsHeldBackUntilItIsBegun(t *testing.T) {
	for _, x := range []struct {
		name    string
		without []string
		at      sink.At // where the sender changes its mind
		want    string
		ends    bool // the connection does
	}{
		{"chunking, connecting", nil, sink.At{Step: sink.OnConnect, Message: -1}, "-----", false},
		{"pipelining, connecting", modes[1].without, sink.At{Step: sink.OnConnect, Message: -1}, "-----", false},
		{"lockstep, connecting", modes[2].without, sink.At{Step: sink.OnConnect, Message: -1}, "-----", false},
		{"pipelining, behind a content", modes[1].without, sink.At{Step: sink.OnEnd, Message: 1}, "SS---", true}, // the third was begun with that content
		{"lockstep, behind a content", modes[2].without, sink.At{Step: sink.OnEnd, Message: 1}, "SS---", false},
		{"lockstep, behind RSET", modes[2].without, sink.At{Step: sink.OnReset, Message: 0}, "F----", false},
		{"pipelining, at the first MAIL", modes[1].without, sink.At{Step: sink.OnMail, Message: 0}, "-----", true},
		{"pipelining, at DATA", modes[1].without, sink.At{Step: sink.OnData, Message: 2}, "SS---", true},
		{"lockstep, at the first MAIL", modes[2].without, sink.At{Step: sink.OnMail, Message: 0}, "-----", true},
		{"lockstep, at RCPT", modes[2].without, sink.At{Step: sink.OnRcpt, Message: 2}, "SS---", true},
		{"lockstep, at DATA", modes[2].without, sink.At{Step: sink.OnData, Message: 4}, "SSSS-", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			var held atomic.Bool
			s := startSink(t, sink.Options{Without: x.without, Fault: func(at sink.At) sink.Act {
				if at.Connection == 0 && at.Step == x.at.Step && at.Message == x.at.Message {
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
			wantText, accepted := "stopped since", 1
			for i, one := range results {
				if one.Kind != mail.ResultUntried {
					continue
				}
				again = append(again, all[i])
				if one.Blame != mail.BlameNobody || one.Closed || one.Text != wantText || one.Held == nil || !one.Connected || one.Cause != "" {
					t.Errorf("mail %d: %+v", i, one)
				}
				if x.ends {
					wantText, accepted = "the connection was closed, since a mail before it was held back: stopped since", 2
				}
			}
			before := s.Received()
			held.Store(false)
			for _, one := range deliver(t, limit(t), r, again) {
				if one.Kind != mail.ResultSent {
					t.Errorf("then: %+v", one)
				}
			}
			if s.Received() != before+len(again) || s.Accepted() != accepted {
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
