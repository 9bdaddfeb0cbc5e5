package smtp

import (
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/sink"
)

// What replies of 4xx and 5xx mean, line by line, and what servers really say.
func TestMeaningOfRefusals(t *testing.T) {
	const (
		defer_ = mail.ResultDeferred
		fail   = mail.ResultFailed
		not    = mail.ResultUntried
		none   = mail.BlameNobody
		rcpt   = mail.BlameRecipient
		letter = mail.BlameMessage
		route  = mail.BlameRoute
	)
	for _, x := range []struct {
		at        step
		text      string
		kind      mail.ResultKind
		blame     mail.Blame
		throttled bool
	}{
		{stepConnect, "554 5.7.1 blocked, see spamhaus", not, route, false},
		{stepConnect, "421 4.7.0 too many connections", not, route, true},
		{stepConnect, "421 Too many concurrent SMTP connections", not, route, true},
		{stepHello, "550 5.7.1 bad name", not, route, false},
		{stepTLS, "454 4.7.0 TLS not available", not, route, false},
		{stepLogin, "535 5.7.8 wrong password", not, route, false},
		{stepLogin, "454 4.7.0 temporary failure", not, route, false},

		{stepMail, "421 Maximum message count per session reached", defer_, route, false},
		{stepMail, "421 4.7.0 too many errors", defer_, route, true},
		{stepMail, "451 4.3.0 disk full", defer_, none, false},
		{stepMail, "451 4.7.1 try later", defer_, route, false},
		{stepMail, "450 your address is on a blocklist", defer_, route, false},
		{stepMail, "454 Throttling failure: Maximum sending rate exceeded", defer_, route, true},
		{stepMail, "503 5.5.1 nested MAIL", defer_, none, false},
		{stepEnd, "500 5.5.2 unknown command", defer_, none, false},
		{stepEnd, "500 5.7.1 we do not want it", fail, letter, false},
		{stepRcpt, "501 5.1.3 bad address", fail, rcpt, false},
		{stepMail, "550 5.7.1 not from you", defer_, route, false},
		{stepMail, "554 Service unavailable; Client host blocked using zen.spamhaus.org", defer_, route, false},
		{stepMail, "530 Authentication required", defer_, route, false},
		{stepMail, "553 5.1.8 sender's domain does not exist", fail, letter, false},
		{stepMail, "552 5.3.4 too big", fail, letter, false},

		{stepRcpt, "450 4.2.0 greylisted", defer_, rcpt, false},
		{stepRcpt, "450 4.2.1 The user is receiving mail too quickly, rate limit exceeded", defer_, rcpt, false},
		{stepRcpt, "450 no mailbox now", defer_, rcpt, false},
		{stepRcpt, "451 4.7.1 Greylisting in action", defer_, none, false},
		{stepRcpt, "450 4.7.0 unusual rate of mail", defer_, route, true},
		{stepRcpt, "454 4.7.0 wait", defer_, route, true},
		{stepRcpt, "451 4.4.3 DNS failed", defer_, none, false},
		{stepRcpt, "552 5.2.2 mailbox full", defer_, rcpt, false}, // RFC 5321, 4.5.3.1.10
		{stepRcpt, "552 too many recipients", defer_, rcpt, false},
		{stepRcpt, "550 5.1.1 no such user", fail, rcpt, false},
		{stepRcpt, "550 no such user", fail, rcpt, false},
		{stepRcpt, "550 5.7.1 relaying denied", fail, none, false},
		{stepRcpt, "554 5.7.1 [192.0.2.1] blocked using a DNSBL", fail, route, false},
		{stepRcpt, "550 5.1.7 bad sender", fail, letter, false},
		{stepRcpt, "530 5.7.1 Client was not authenticated", defer_, route, false},
		{stepRcpt, "535 5.7.8 log in again", defer_, route, false},
		{stepData, "530 5.7.0 Authentication required", defer_, route, false},
		{stepEnd, "530 Authentication required", defer_, route, false},
		{stepEnd, "538 5.7.11 Encryption required for requested authentication mechanism", defer_, route, false},
		{stepRcpt, "550 5.4.1 access denied", fail, none, false},

		{stepEnd, "454 Throttling failure: Daily message quota exceeded.", defer_, route, true},
		{stepEnd, "451 4.7.0 daily quota exceeded", defer_, route, true},
		{stepEnd, "451 4.3.0 temporary", defer_, none, false},
		{stepEnd, "452 4.2.2 over quota", defer_, rcpt, false},
		{stepEnd, "552 5.3.4 too big", fail, letter, false},
		{stepEnd, "552 5.2.2 over quota", fail, rcpt, false},
		{stepEnd, "554 5.7.1 spam", fail, letter, false},
		{stepEnd, "554 transaction failed", fail, letter, false},
		{stepEnd, "550 5.7.1 your reputation is low", fail, route, false},
	} {
		r, err := readReply(x.text + "\r\n")
		if err != nil {
			t.Fatal(err)
		}
		got := (&session{remote: "r"}).refused(x.at, r)
		if got.Kind != x.kind || got.Blame != x.blame || got.Throttled != x.throttled {
			t.Errorf("%s: %s: kind %d, blame %d, throttled %v; want %d, %d, %v", x.at, x.text, got.Kind, got.Blame, got.Throttled, x.kind, x.blame, x.throttled)
		}
	}
}

func readReply(text string) (reply, error) {
	r := newReplies(strings.NewReader(text))
	return r.next(nil)
}

func TestEnhancedCodesAndIDs(t *testing.T) {
	for _, x := range []struct{ line, enhanced, text, id string }{
		{"250 2.0.0 Ok: queued as 4XyZ12", "2.0.0", "Ok: queued as 4XyZ12", "4XyZ12"},
		{"250 2.0.0 Ok: queued as 4XyZ12.", "2.0.0", "Ok: queued as 4XyZ12.", "4XyZ12"},
		{"250 Ok 0100018c2f7a-1111-2222-000000", "", "Ok 0100018c2f7a-1111-2222-000000", "0100018c2f7a-1111-2222-000000"},
		{"250 Ok, thank you very much", "", "Ok, thank you very much", ""},
		{"250 Ok 4711", "", "Ok 4711", ""},
		{"550 5.1.1", "5.1.1", "", ""},
		{"550-5.7.26 This mail\r\n550-5.7.26 is not signed.\r\n550 5.7.26 So there", "5.7.26", "This mail is not signed. So there", ""},
		{"550 4.1.1 another class", "", "4.1.1 another class", ""},
		{"550 5.1111.1 x", "", "5.1111.1 x", ""},
		{"550 5.1.1x", "", "5.1.1x", ""},
		{"550 55.1.1 x", "", "55.1.1 x", ""},
		{"250", "", "", ""},
		{"550 control \x01\x1b[2J and \xff", "", "control   [2J and ?", ""},
		{"550 \u202egpj.exe\u2066 \u2028 and \u0085", "", "gpj.exe    and", ""},
	} {
		r, err := readReply(x.line + "\r\n")
		if err != nil {
			t.Fatalf("%q: %v", x.line, err)
		}
		got := (&session{}).taken(r)
		if got.Enhanced != x.enhanced || got.Text != x.text || got.ID != x.id {
			t.Errorf("%q: %q, %q, %q; want %q, %q, %q", x.line, got.Enhanced, got.Text, got.ID, x.enhanced, x.text, x.id)
		}
	}
}

// What one refusal in the middle of a window does to it, in each mode.
func TestRefusalsTouchOneMessage(t *testing.T) {
	for _, x := range []struct {
		step  sink.Step
		act   sink.Act
		kinds [3]string // by mode; empty: as the one before
		code  int
		blame mail.Blame
	}{
		{sink.OnMail, sink.Act{Reply: "550 5.7.1 not you"}, [3]string{"SSDSS"}, 550, mail.BlameRoute},
		{sink.OnMail, sink.Act{Reply: "451 4.3.0 later"}, [3]string{"SSDSS"}, 451, mail.BlameNobody},
		{sink.OnRcpt, sink.Act{Reply: "550 5.1.1 nobody"}, [3]string{"SSFSS"}, 550, mail.BlameRecipient},
		{sink.OnRcpt, sink.Act{Reply: "552 5.2.2 full"}, [3]string{"SSDSS"}, 552, mail.BlameRecipient},
		{sink.OnEnd, sink.Act{Reply: "554 5.7.1 spam"}, [3]string{"SSFSS"}, 554, mail.BlameMessage},
		{sink.OnEnd, sink.Act{Reply: "454 throttled"}, [3]string{"SSDSS"}, 454, mail.BlameRoute},
		{sink.OnMail, sink.Act{Reply: "421 4.3.2 bye"}, [3]string{"SSD--"}, 421, mail.BlameRoute},
		{sink.OnRcpt, sink.Act{Reply: "421 4.3.2 bye"}, [3]string{"SSD--"}, 421, mail.BlameRoute},
		{sink.OnEnd, sink.Act{Reply: "421 4.3.2 bye"}, [3]string{"SSD--"}, 421, mail.BlameRoute},
		{sink.OnEnd, sink.Act{Cut: sink.Unsaid}, [3]string{"SS???", "SS?--"}, 0, mail.BlameRoute},
		{sink.OnEnd, sink.Act{Cut: sink.Midreply}, [3]string{"SS???", "SS?--"}, 0, mail.BlameRoute},
		{sink.OnRcpt, sink.Act{Cut: sink.Unsaid}, [3]string{"SS???", "SS---"}, 0, mail.BlameRoute},
	} {
		want := ""
		for k, mode := range modes {
			if x.kinds[k] != "" {
				want = x.kinds[k]
			}
			t.Run(mode.name+" "+x.step.String()+" "+x.act.Reply, func(t *testing.T) {
				s := startSink(t, sink.Options{Without: mode.without, Fault: func(at sink.At) sink.Act {
					if at.Step == x.step && at.Message == 2 && at.Connection == 0 {
						return x.act
					}
					return sink.Act{}
				}})
				r := newRelay(t, s.Addr(), Options{})
				all := envelopes(5, 300)
				results := deliver(t, limit(t), r, all)
				if got := kinds(results); got != want {
					t.Errorf("%s, want %s: %+v", got, want, results[2])
				}
				if one := results[2]; one.Code != x.code || one.Blame != x.blame {
					t.Errorf("mail 2: %+v", one)
				}
				for i, one := range results {
					if closed := x.code == 421 && i >= 2; one.Closed != closed {
						t.Errorf("mail %d: that the server is closed is %v: %+v", i, one.Closed, one)
					}
				}
				if again := kinds(deliver(t, limit(t), r, all[:1])); again != "S" { // nobody's transaction lies open
					t.Errorf("the next window: %s", again)
				}
			})
		}
	}
}

// Servers that are legal and unusual: 354 although no recipient is left (RFC
// 2920, 3.1), and a refused transaction that stays open behind BDAT LAST.
func TestUnusualServers(t *testing.T) {
	refuse := func(at sink.At) sink.Act {
		if at.Step == sink.OnRcpt && at.Message == 1 {
			return sink.Act{Reply: "550 5.1.1 nobody"}
		}
		return sink.Act{}
	}
	t.Run("eager", func(t *testing.T) {
		s := startSink(t, sink.Options{Without: []string{"CHUNKING"}, Eager: true, Fault: refuse})
		r := newRelay(t, s.Addr(), Options{})
		if got := kinds(deliver(t, limit(t), r, envelopes(5, 300))); got != "SFSSS" || s.Received() != 4 {
			t.Errorf("%s, and %d were taken", got, s.Received())
		}
	})
	t.Run("open", func(t *testing.T) {
		s := startSink(t, sink.Options{Open: true, Fault: refuse})
		r := newRelay(t, s.Addr(), Options{})
		all := envelopes(5, 300)
		results := deliver(t, limit(t), r, all)
		if got := kinds(results); got != "SFDDD" || s.Received() != 1 {
			t.Errorf("%s, and %d were taken", got, s.Received())
		}
		if !r.resets.Load() {
			t.Error("the relay has not learned that this server needs RSET")
		}
		if got := kinds(deliver(t, limit(t), r, envelopes(9, 300)[6:])); got != "SSS" {
			t.Errorf("the next window: %s", got)
		}
		if s.Received() != 4 {
			t.Errorf("%d were taken", s.Received())
		}
	})
	t.Run("says 421 and stays", func(t *testing.T) {
		s := startSink(t, sink.Options{Fault: func(at sink.At) sink.Act {
			switch {
			case at.Step == sink.OnMail && at.Message == 1:
				return sink.Act{Reply: "421 4.3.2 bye", Stay: true}
			case at.Step == sink.OnEnd && at.Message == 3:
				return sink.Act{Hang: true}
			}
			return sink.Act{}
		}})
		r := newRelay(t, s.Addr(), Options{Timeouts: Timeouts{Closing: time.Second}})
		all := envelopes(5, 300)
		results := deliver(t, limit(t), r, all)
		if err := s.Drain(limit(t)); err != nil {
			t.Fatal(err)
		}
		compare(t, s, all, results)
		if got := kinds(results); got[0] != 'S' || got[1] != 'D' || got[3:] != "??" || s.Received() != 4 {
			t.Errorf("%s, and %d were taken", got, s.Received())
		}
	})
	t.Run("says CHUNKING and does not know it", func(t *testing.T) {
		s := startSink(t, sink.Options{Fault: func(at sink.At) sink.Act {
			if at.Step == sink.OnEnd && at.Connection == 0 {
				return sink.Act{Reply: "502 5.5.2 what is BDAT"}
			}
			return sink.Act{}
		}})
		r := newRelay(t, s.Addr(), Options{})
		all := envelopes(3, 300)
		if got := kinds(deliver(t, limit(t), r, all)); got != "D??" {
			t.Errorf("%s", got)
		}
		if got := kinds(deliver(t, limit(t), r, all)); got != "SSS" || s.Received() != 3 {
			t.Errorf("%s, and %d were taken", got, s.Received())
		}
	})
}
