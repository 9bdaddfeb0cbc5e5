package dns

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"sluice/test/dnstest"
)

func asking(t *testing.T, lines ...string) (*Resolver, *dnstest.Server) {
	t.Helper()
	s := dnstest.Start(t, lines...)
	r, err := New(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

// Records of each kind are found, with the names that led to them; a name that
// is not there differs from one without such records.
func TestAsk(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	endless := []string{fmt.Sprintf("d%d.example TXT end", maxAliases+1)} // but for one alias too many
	for i := range maxAliases + 1 {
		endless = append(endless, fmt.Sprintf("d%d.example CNAME d%d.example", i, i+1))
	}
	r, s := asking(t, append(endless,
		"example.com A 192.0.2.1", "example.com A 192.0.2.2", "example.com AAAA 2001:db8::1", "example.com MX 20 B.example.com", "example.com MX 10 a.example.com",
		"none.example MX 0 .", "text.example TXT one", "text.example TXT "+long, "www.example CNAME text.example",
		"c0.example CNAME c1.example", "c1.example CNAME c2.example", "c2.example CNAME c3.example", "c3.example CNAME c4.example", "c4.example CNAME c5.example", "c5.example TXT end",
		"gone.example CNAME nowhere.example", "loop.example CNAME loop.example")...)
	for _, test := range []struct {
		name string
		kind Kind
		want string
	}{
		{"example.com", A, "1 [] [192.0.2.1 192.0.2.2] [] []"},
		{"EXAMPLE.com.", AAAA, "1 [] [2001:db8::1] [] []"},
		{"example.com", MX, "1 [] [] [] [{a.example.com 10} {b.example.com 20}]"},
		{"none.example", MX, "1 [] [] [] [{ 0}]"},
		{"example.com", TXT, "2 [] [] [] []"},
		{"nowhere.example", TXT, "3 [] [] [] []"},
		{"text.example", TXT, "1 [] [] [one " + long + "] []"},
		{"www.example", TXT, "1 [text.example] [] [one " + long + "] []"},
		{"c0.example", TXT, "1 [c1.example c2.example c3.example c4.example c5.example] [] [end] []"},
		{"gone.example", TXT, "3 [nowhere.example] [] [] []"},
	} {
		a, err := r.Ask(t.Context(), test.name, test.kind)
		if got := fmt.Sprint(a.Status, a.Aliases, a.Addresses, a.Texts, a.Mailers); err != nil || got != test.want {
			t.Errorf("%s %s: %s %v, want %s", test.name, test.kind, got, err, test.want)
		}
	}
	if s.ByTCP() != 0 {
		t.Errorf("%d questions came by TCP: the answers fit into a packet", s.ByTCP())
	}
	for _, name := range []string{"loop.example", "d0.example"} {
		if _, err := r.Ask(t.Context(), name, TXT); err == nil || !strings.Contains(err.Error(), "alias of an alias") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{strings.Repeat("a.", 200) + "example", strings.Repeat("a", 64) + ".example", "a..example"} {
		if _, err := r.Ask(t.Context(), name, A); err == nil {
			t.Errorf("%.80s was looked up", name)
		}
	}
}

// An answer that does not fit into a packet is asked for by TCP.
func TestAskByTCP(t *testing.T) {
	text := strings.Repeat("x", 3000)
	r, s := asking(t, "big.example TXT "+text)
	a, err := r.Ask(t.Context(), "big.example", TXT)
	if err != nil || !slices.Equal(a.Texts, []string{text}) || s.ByTCP() != 1 {
		t.Errorf("%d texts, %v, %d questions by TCP", len(a.Texts), err, s.ByTCP())
	}
}

// A question without an answer is an error that names the server asked, in
// time. The next server is asked if the first fails.
func TestAskFails(t *testing.T) {
	r, s := asking(t, "bad.example FAILS", "mute.example MUTE", "good.example TXT x")
	if _, err := r.Ask(t.Context(), "bad.example", TXT); err == nil || !strings.Contains(err.Error(), "ask "+s.Addr()+": it answers ServerFailure") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Ask(ctx, "mute.example", TXT); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Error(err)
	}
	closed := dnstest.Start(t, "good.example FAILS")
	r.servers = []string{closed.Addr(), s.Addr()}
	if a, err := r.Ask(t.Context(), "good.example", TXT); err != nil || a.Status != Found {
		t.Errorf("%+v %v", a, err)
	}
}

func TestNew(t *testing.T) {
	for server, want := range map[string]string{"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353", "2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]:54": "[2001:db8::1]:54"} {
		if r, err := New(server); err != nil || r.servers[0] != want {
			t.Errorf("%s: %+v %v", server, r, err)
		}
	}
	for _, server := range []string{"dns.example", "192.0.2.1:0", "192.0.2.1:x", ":53", "192.0.2.1:99999"} {
		if _, err := New(server); err == nil {
			t.Errorf("%s was taken for a resolver", server)
		}
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	for text, want := range map[string][]string{
		"# none\nsearch example\n": {"127.0.0.1:53"},
		"nameserver 192.0.2.1\nnameserver x\n nameserver\t2001:db8::1 # two\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n": {"192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.3:53"},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := system(file); err != nil || !slices.Equal(r.servers, want) {
			t.Errorf("%q: %+v %v", text, r, err)
		}
	}
	if r, err := system(file + "-none"); err != nil || len(r.servers) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// Only what answers this question, by its number, name and type, is an answer.
func TestAnswersOfOthers(t *testing.T) {
	name := dnsmessage.MustNewName("example.com.")
	query, id, err := pack(name, TXT)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		id       uint16
		response bool
		name     string
		kind     dnsmessage.Type
		want     bool
	}{
		{id, true, "EXAMPLE.com.", dnsmessage.TypeTXT, true}, {id + 1, true, "example.com.", dnsmessage.TypeTXT, false}, {id, false, "example.com.", dnsmessage.TypeTXT, false},
		{id, true, "example.org.", dnsmessage.TypeTXT, false}, {id, true, "example.com.", dnsmessage.TypeA, false},
	} {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: test.id, Response: test.response},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(test.name), Type: test.kind, Class: dnsmessage.ClassINET}}}
		text, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if got := answers(text, query, id) != nil; got != test.want {
			t.Errorf("%+v is an answer: %t", test, got)
		}
	}
}

// No answer can make the reader panic, or be taken for one to another question.
func FuzzAnswers(f *testing.F) {
	name := dnsmessage.MustNewName("example.com.")
	query, id, err := pack(name, TXT)
	if err != nil {
		f.Fatal(err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}},
		Answers: []dnsmessage.Resource{
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("a.example.")}},
			{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("a.example."), Class: dnsmessage.ClassINET}, Body: &dnsmessage.TXTResource{TXT: []string{"v=spf1 -all"}}},
		},
	}
	text, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(query)
	f.Fuzz(func(t *testing.T, text []byte) {
		m := answers(text, query, id)
		if m == nil {
			return
		}
		if m.ID != id || !m.Response {
			t.Errorf("%+v was taken for an answer", m.Header)
		}
		a := Answer{}
		if _, err := a.read(m, name, TXT); err == nil && a.Status == Found && len(a.Texts) == 0 {
			t.Errorf("%+v", a)
		}
	})
}
