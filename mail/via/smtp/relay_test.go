package smtp

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/sink"
)

// testWithin bounds a test that would otherwise hang.
const testWithin = 3 * time.Minute

func limit(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testWithin)
	t.Cleanup(cancel)
	return ctx
}

func startSink(t testing.TB, opt sink.Options) *sink.Sink {
	t.Helper()
	s, err := sink.Start(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, p := range s.Problems() {
			t.Errorf("the sink complains: %s", p)
		}
	})
	return s
}

// newRelay makes a relay to an address, without TLS unless opt says so.
func newRelay(t testing.TB, address string, opt Options) *Relay {
	t.Helper()
	opt.Name, opt.Address, opt.Hello = "test", address, "client.test"
	if opt.TLS == "" {
		opt.TLS = TLSNone
	}
	r, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func id(i int) string { return fmt.Sprintf("<mail-%d@client.test>", i) }

// content is a message of about so many octets, with lines that begin with dots.
func content(i, octets int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "From: a@client.test\r\nTo: r%d@sink.test\r\nMessage-ID: %s\r\nSubject: test\r\n\r\n.\r\n..two\r\n", i, id(i))
	const line = "The quick brown fox jumps over the lazy dog, line after line of it.\r\n"
	b.WriteString(strings.Repeat(line, max(0, octets-b.Len())/len(line)+1))
	b.WriteString(".end\r\n")
	return []byte(b.String())
}

func envelopes(n, octets int) []mail.Envelope {
	all := make([]mail.Envelope, n)
	for i := range all {
		all[i] = mail.Envelope{From: fmt.Sprintf("bounce-%d@client.test", i), To: fmt.Sprintf("r%d@sink.test", i), Content: content(i, octets)}
	}
	return all
}

// deliver delivers and checks that each envelope is reported once.
func deliver(t testing.TB, ctx context.Context, r *Relay, all []mail.Envelope) []mail.Result {
	t.Helper()
	results := make([]mail.Result, len(all))
	var inside atomic.Int32
	r.Deliver(ctx, all, func(i int, one mail.Result) {
		if inside.Add(1) != 1 {
			t.Error("done was called while it was called")
		}
		if results[i].Kind != 0 {
			t.Errorf("envelope %d was reported twice: %v, then %v", i, results[i], one)
		}
		if one.Kind == 0 {
			t.Errorf("envelope %d was reported without a kind", i)
		}
		results[i] = one
		inside.Add(-1)
	})
	for i, one := range results {
		if one.Kind == 0 {
			t.Errorf("envelope %d was not reported", i)
		}
	}
	return results
}

// modes are the ways in which messages go out.
var modes = []struct {
	name    string
	without []string
}{
	{"chunking", nil},
	{"pipelining", []string{"CHUNKING"}},
	{"lockstep", []string{"CHUNKING", "PIPELINING"}},
}

func kinds(results []mail.Result) string {
	letters := map[mail.ResultKind]string{mail.ResultSent: "S", mail.ResultDeferred: "D", mail.ResultFailed: "F", mail.ResultInDoubt: "?", mail.ResultUntried: "-"}
	s := ""
	for _, r := range results {
		s += letters[r.Kind]
	}
	return s
}

func TestWindowsArriveUnchanged(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := startSink(t, sink.Options{Without: mode.without, Keep: 100})
			r := newRelay(t, s.Addr(), Options{})
			all := envelopes(40, 300)
			all[3].Content = []byte("Message-ID: <mail-3@client.test>\r\n\r\nno end of line")
			all[4].Content = []byte("Message-ID: <mail-4@client.test>\r\n\r\n")
			all[5].Content = []byte(".leading: dot\r\nMessage-ID: <mail-5@client.test>\r\n\r\n.\r\n.\r\n\r\n.\r\n")
			all[6].From = ""
			all[7].To = `"quoted name\" with <"@sink.test`
			all[7].To = `"quoted name \" here"@sink.test`
			all[8].Content = content(8, 3<<20)
			for _, one := range deliver(t, limit(t), r, all) {
				if one.Kind != mail.ResultSent || one.Code != 250 || one.Enhanced != "2.0.0" || one.ID == "" || one.Remote == "" {
					t.Fatalf("not sent: %+v", one)
				}
			}
			mails := s.Mails()
			if len(mails) != len(all) || s.Duplicates() != 0 {
				t.Fatalf("%d mails arrived, %d of them twice", len(mails), s.Duplicates())
			}
			for i, m := range mails {
				want := string(all[i].Content)
				if mode.name != "chunking" && !strings.HasSuffix(want, "\r\n") {
					want += "\r\n" // DATA has no content without
				}
				if string(m.Content) != want || m.From != all[i].From || len(m.To) != 1 || m.To[0] != all[i].To {
					t.Errorf("mail %d arrived changed: from %q to %q, %d octets of %d", i, m.From, m.To, len(m.Content), len(want))
				}
				if m.Chunked != (mode.name == "chunking") || m.Connection != 0 {
					t.Errorf("mail %d: chunked %v, connection %d", i, m.Chunked, m.Connection)
				}
			}
		})
	}
}
