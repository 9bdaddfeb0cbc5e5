package smtp

import (
	"strings"
	"testing"

	"sluice/test/sink"
)

// A header that names the send is at the top of each mail, unless the mail has its own.
// The envelopes of the caller stay as they were.
func TestHeaderNamesTheSend(t *testing.T) {
	s := startSink(t, sink.Options{Keep: 10})
	r := newRelay(t, s.Addr(), Options{Header: func(send string) string { return "X-Names: send=" + send }})
	all := envelopes(3, 100)
	for i := range all {
		all[i].Send = "m" + string(rune('0'+i)) + ".0"
	}
	all[1].Content = append([]byte("x-names: mine\r\n"), all[1].Content...)
	all[2].Content = []byte("Message-ID: <mail-2@client.test>\r\n\r\nX-Names: of the body\r\n")
	before := string(all[0].Content)
	if got := kinds(deliver(t, limit(t), r, all)); got != "SSS" {
		t.Fatal(got)
	}
	if string(all[0].Content) != before {
		t.Error("the caller's content was changed")
	}
	for _, m := range s.Mails() {
		head, _, _ := strings.Cut(string(m.Content), "\r\n\r\n")
		want := "X-Names: send=m" + m.To[0][1:2] + ".0\r\n"
		if m.To[0] == "r1@sink.test" {
			want = "x-names: mine\r\n"
		}
		if !strings.HasPrefix(head, want) || strings.Count(strings.ToLower(head), "x-names:") != 1 {
			t.Errorf("to %s:\n%s", m.To[0], head)
		}
	}
}
