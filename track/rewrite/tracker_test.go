package rewrite

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/user"
)

// build makes a message as /v1/messages does.
func build(t testing.TB, html string) []byte {
	t.Helper()
	from, err := mime.ParseMailbox("shop@example.com")
	if err != nil {
		t.Fatal(err)
	}
	message, err := mime.Build(&mime.Common{From: from}, &mime.Fields{Subject: "s", HTML: html, ID: "x@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func tracked(number, recipients int, what mail.Track) *spool.Tracked {
	return &spool.Tracked{Send: &mail.Send{Message: place.Message, Number: number, Recipients: recipients, To: "ann@example.com"},
		User: user.ID{Partition: place.Partition, Number: place.Person}, What: what}
}

var all = Settings{Opens: true, Clicks: true, Transactional: true, Partitions: 16}

// Each recipient's message says what it is, in whichever encoding, whether it was
// read for that recipient or for an earlier one.
func TestMessages(t *testing.T) {
	tr := New(keys(t), all)
	for name, source := range map[string]string{
		"7bit":             "<p>hello</p>\r\n<a href=\"https://a/\">x</a>",
		"quoted-printable": "<p>Grüße</p>\r\n" + strings.Repeat("<a href=\"https://a/?b=1&amp;c=%C3\">x</a> ", 30),
		"base64":           "<p>" + strings.Repeat("日本語", 100) + "</p><a href=\"https://a/\">x</a>",
	} {
		content := build(t, source)
		if got := mime.FindHTML(content); got == nil || !bytes.Contains(content, []byte("text/html; charset=utf-8\r\nContent-Transfer-Encoding: "+name)) {
			t.Fatalf("%s is not the encoding of\n%s", name, content)
		}
		for _, recipients := range []int{1, 5} {
			tr.layouts = layouts{most: DefaultCacheBytes}
			for n := range recipients {
				place.Send = n
				made := tr.Message(t.Context(), content, tracked(n, recipients, mail.TrackAll))
				part := mime.FindHTML(made)
				if part == nil {
					t.Fatalf("%s: there is no HTML any more:\n%s", name, made)
				}
				if got, want := read(t, part.Text), read(t, rewritten(t, source, &both)); strings.TrimRight(got, "\r\n") != want {
					t.Errorf("%s, recipient %d:\ngot  %s\nwant %s", name, n, got, want)
				}
				head, _, _ := bytes.Cut(content, []byte("text/html"))
				if !bytes.HasPrefix(made, head) {
					t.Errorf("%s: what is before the HTML was changed:\n%s", name, made)
				}
			}
			if kept := len(tr.layouts.kept); kept != recipients/5 {
				t.Errorf("%s: %d layouts are kept of a message with %d recipients", name, kept, recipients)
			}
		}
	}
	place.Send = 3
}

// What is not to be known, or cannot be, leaves a message as it was.
func TestUntracked(t *testing.T) {
	tr := New(keys(t), all)
	plain, html := build(t, ""), build(t, "<a href='https://a/'>x</a>")
	signed := append([]byte("DKIM-Signature: v=1\r\n"), html...)
	for name, x := range map[string]struct {
		content []byte
		s       *spool.Tracked
	}{
		"text": {plain, tracked(0, 1, mail.TrackAll)}, "nothing is wanted": {html, tracked(0, 1, 0)}, "signed": {signed, tracked(0, 2, mail.TrackAll)},
		"a send out of bounds": {html, tracked(1<<16, 1, mail.TrackAll)},
	} {
		if got := tr.Message(t.Context(), x.content, x.s); !bytes.Equal(got, x.content) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if _, ok := tr.HTML(t.Context(), "<p>x</p>", tracked(0, 1, mail.TrackClicks)); ok {
		t.Error("HTML without links was changed")
	}
	for _, tt := range []struct {
		change func(*Settings)
		class  mail.Class
		app    string
		want   mail.Track
	}{
		{func(*Settings) {}, mail.ClassTransactional, "a", mail.TrackAll},
		{func(s *Settings) { s.Opens = false }, mail.ClassMarketing, "a", mail.TrackClicks},
		{func(s *Settings) { s.Clicks = false }, mail.ClassMarketing, "a", mail.TrackOpens},
		{func(s *Settings) { s.Transactional = false }, mail.ClassTransactional, "a", 0},
		{func(s *Settings) { s.Transactional = false }, mail.ClassMarketing, "a", mail.TrackAll},
		{func(s *Settings) { s.ExceptApps = []string{"b", "a"} }, mail.ClassMarketing, "a", 0},
	} {
		s := all
		tt.change(&s)
		if got := New(keys(t), s).Wanted(&mail.Send{Class: tt.class, App: tt.app}, mail.TrackAll); got != tt.want {
			t.Errorf("%+v: %s", s, got)
		}
	}
}

// What is kept of messages is bounded in bytes.
func TestLayoutsAreBounded(t *testing.T) {
	tr := New(keys(t), all)
	tr.layouts.most = 64 << 10
	content := build(t, "<a href='https://a/'>x</a>"+strings.Repeat("<p>x</p>\r\n", 500))
	for i := range 50 {
		s := tracked(0, 2, mail.TrackAll)
		s.Send.Message = fmt.Sprintf("%032x", i)
		if bytes.Equal(tr.Message(t.Context(), content, s), content) {
			t.Fatal("it is not tracked")
		}
	}
	sum := 0
	for _, l := range tr.layouts.kept {
		sum += l.bytes()
	}
	if n := len(tr.layouts.kept); sum != tr.layouts.bytes || sum > tr.layouts.most || n < 2 || n != len(tr.layouts.order) {
		t.Errorf("%d layouts of %d bytes, counted %d", n, sum, tr.layouts.bytes)
	}
	large := build(t, "<a href='https://a/'>x</a>"+strings.Repeat("<p>x</p>\r\n", 5000))
	if tr.Message(t.Context(), large, tracked(0, 2, mail.TrackAll)); len(tr.layouts.kept) < 2 {
		t.Error("a large message has driven the others out")
	}
}

func BenchmarkMessage(b *testing.B) {
	tr, content := New(keys(b), all), build(b, document())
	for name, recipients := range map[string]int{"read each time": 1, "read once": 1000} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				tr.Message(b.Context(), content, tracked(0, recipients, mail.TrackAll))
			}
		})
	}
}

// What is kept of a message is counted: not the batch that one of its sends was read from.
func TestLayoutsKeepNoBatch(t *testing.T) {
	tr := New(keys(t), all)
	batch := strings.Repeat("x", 1<<10) + place.Message
	of := weak.Make(unsafe.StringData(batch))
	s := tracked(0, 2, mail.TrackAll)
	s.Send.Message = batch[1<<10:]
	tr.Message(t.Context(), build(t, "<a href='https://a/'>x</a>"), s)
	s, batch = nil, ""
	runtime.GC()
	if of.Value() != nil {
		t.Error("the batch is kept with the name of a message")
	}
	if _, ok := tr.layouts.get(layoutName{place.Message, mail.TrackAll, false}); !ok {
		t.Error("the layout is not kept")
	}
}
