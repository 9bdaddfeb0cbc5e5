package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/lib/outbound"
	"sluice/test/clocktest"
)

// snsServer answers what is asked of SNS, and notes it.
type snsServer struct {
	certificate []byte
	status      int
	away        error // of a certificate
	asked       []string
}

func (s *snsServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.String())
	body, status := "<ConfirmSubscriptionResponse/>", s.status
	if strings.HasSuffix(r.URL.Path, ".pem") {
		if s.away != nil {
			return nil, s.away
		}
		body, status = string(s.certificate), http.StatusOK
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Location": {"https://10.0.0.1/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func sesReceiver(t *testing.T) (*Receiver, *sns, *snsServer) {
	t.Helper()
	signer := newSNS(t, "sns.amazonaws.com")
	server := &snsServer{certificate: signer.certificate, status: http.StatusOK}
	p, err := Find("ses")
	if err != nil {
		t.Fatal(err)
	}
	return NewReceiver([]Source{{Name: "main", Provider: p, Topics: []string{testTopic}}},
		Options{Transport: server, Clock: clocktest.At(testNow)}), signer, server
}

// SNS is confirmed at its own host, for a topic of ours, whatever the message says; its
// events are read after that, and the certificate is fetched once.
func TestReceiveSNS(t *testing.T) {
	r, signer, server := sesReceiver(t)
	source := r.Source("sns", "main")
	if source == nil || r.Source("ses", "other") != nil || r.Source("sendgrid", "main") != nil || r.Source("none", "main") != nil {
		t.Fatal("sources are not found by provider and name")
	}
	confirm := func(subscribeURL string) func(map[string]string) {
		return func(m map[string]string) {
			m["Type"], m["Token"], m["SubscribeURL"] = snsConfirmation, "t0ken", subscribeURL
		}
	}
	const want = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t0ken&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Ases-events&Version=2010-03-31"
	for _, address := range []string{"https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t0ken", "http://169.254.169.254/latest/meta-data/", "https://localhost:8019/v1/sending/purge"} {
		server.asked = nil
		if _, err := r.Receive(t.Context(), source, signer.message(t, confirm(address), nil)); err != nil || server.asked[len(server.asked)-1] != want {
			t.Errorf("%s: %v, asked %q", address, err, server.asked)
		}
		for _, asked := range server.asked {
			if u, err := url.Parse(asked); err != nil || u.Host != "sns.eu-west-1.amazonaws.com" {
				t.Errorf("%s: asked %s", address, asked)
			}
		}
	}
	server.asked, server.status = nil, http.StatusFound
	if _, err := r.Receive(t.Context(), source, signer.message(t, confirm("x"), nil)); !errors.Is(err, ErrUnconfirmed) || len(server.asked) != 1 {
		t.Errorf("a redirect: %v, asked %q", err, server.asked)
	}
	server.asked = nil
	if found, err := r.Receive(t.Context(), source, signer.message(t, nil, nil)); err != nil || len(found.Events) != 1 || len(server.asked) != 0 {
		t.Errorf("%d events, %v, asked %q", len(found.Events), err, server.asked)
	}
	for name, spoil := range map[string]func(map[string]string){
		"another topic":              set("TopicArn", "arn:aws:sns:eu-west-1:999999999999:ses-events"),
		"a certificate of a machine": set("SigningCertURL", "https://127.0.0.1/SimpleNotificationService-0.pem"),
		"a certificate by http":      set("SigningCertURL", "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"),
		"another message":            set("Message", "{}"),
	} {
		if _, err := r.Receive(t.Context(), source, signer.message(t, confirm("x"), spoil)); !errors.Is(err, ErrRefused) || len(server.asked) != 0 {
			t.Errorf("%s: %v, asked %q", name, err, server.asked)
		}
	}
	ended := func(m map[string]string) {
		m["Type"], m["Token"], m["SubscribeURL"] = snsUnsubscribed, "t0ken", "x"
	}
	if _, err := r.Receive(t.Context(), source, signer.message(t, ended, nil)); err != nil || len(server.asked) != 0 {
		t.Errorf("the end of a subscription: %v, asked %q", err, server.asked)
	}
}

// A message is not refused for good while the certificate cannot be fetched, or is none: it
// comes again. One whose certificate is elsewhere is refused.
func TestReceiveSNSWithoutCertificate(t *testing.T) {
	r, signer, server := sesReceiver(t)
	source, good := r.Source("ses", "main"), signer.certificate
	receive := func(spoil func(map[string]string)) error {
		r.clock.(*clocktest.Clock).Move(certificateRest)
		_, err := r.Receive(t.Context(), source, signer.message(t, nil, spoil))
		return err
	}
	for name, breaks := range map[string]func(){
		"nothing answers": func() { server.away = errors.New("no route to host") },
		"it is cut off":   func() { server.certificate = good[:len(good)/2] },
	} {
		breaks()
		if err := receive(nil); !errors.Is(err, ErrNoCertificate) || errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		server.away, server.certificate = nil, good
	}
	if err := receive(set("SigningCertURL", "https://example.com/SimpleNotificationService-0.pem")); !errors.Is(err, ErrRefused) || errors.Is(err, ErrNoCertificate) {
		t.Errorf("elsewhere: %v", err)
	}
	if err := receive(nil); err != nil {
		t.Errorf("when it is there: %v", err)
	}
}

// A subscription that is told by a secret, without a signature, is confirmed for a topic
// of ours alone.
func TestConfirmUnsigned(t *testing.T) {
	r, _, server := sesReceiver(t)
	source := r.Source("ses", "main")
	source.Secrets = []string{"a-secret-of-a-test"}
	for topic, good := range map[string]bool{testTopic: true, "arn:aws:sns:eu-west-1:999999999999:ses-events": false} {
		server.asked = nil
		body, err := json.Marshal(map[string]string{"Type": snsConfirmation, "TopicArn": topic, "Token": "x"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Receive(t.Context(), source, &Request{URL: "https://mail.example.com/?key=a-secret-of-a-test", Body: body})
		if (err == nil) != good || (len(server.asked) == 1) != good {
			t.Errorf("%s: %v, asked %q", topic, err, server.asked)
		}
	}
}

// Nothing in the network of this machine is reached, by whatever name.
func TestOutgoingReachesPublicAddressesAlone(t *testing.T) {
	reached := false
	local := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer local.Close()
	for _, address := range []string{local.URL, strings.Replace(local.URL, "127.0.0.1", "localhost", 1)} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := NewReceiver(nil, Options{}).client.Transport.RoundTrip(request); !errors.Is(err, outbound.ErrRefused) || reached {
			t.Errorf("%s: %v, %v", address, answer, err)
		}
	}
}

// A token of Mailgun holds for one body, as often as it comes, at all sources that have
// the key. Another key has tokens of its own.
func TestTokensHoldForOneBody(t *testing.T) {
	p, err := Find("mailgun")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReceiver([]Source{{Name: "a", Provider: p, Secrets: []string{"key"}}, {Name: "b", Provider: p, Secrets: []string{"other", "key"}}, {Name: "c", Provider: p, Secrets: []string{"other"}}},
		Options{Clock: clocktest.At(testNow)})
	for _, tt := range []struct {
		source, token, event string
		good                 bool
	}{
		{"a", "t1", "opened", true}, {"a", "t1", "opened", true}, {"a", "t1", "complained", false}, {"a", "t1", "opened", true},
		{"b", "t1", "opened", true}, {"b", "t1", "complained", false}, {"a", "t2", "complained", true}, {"b", "t2", "opened", false}, {"c", "t1", "opened", false},
	} {
		if _, err := r.Receive(context.Background(), r.Source("mailgun", tt.source), mailgunRequest(tt.token, tt.event)); (err == nil) != tt.good {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	other := &Request{Body: fmt.Appendf(nil, `{%s,"event-data":{"event":"clicked","timestamp":1761285600}}`, mailgunPair("signature", "other", "t1"))}
	if _, err := r.Receive(t.Context(), r.Source("mailgun", "c"), other); err != nil {
		t.Errorf("the token of another key: %v", err)
	}
	for i := range 2 * maxTokens {
		if _, err := r.tokens.fits(t.Context(), "other"+strconv.Itoa(i), nil, testNow); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.tokens.young) + len(r.tokens.older); n > 2*maxTokens {
		t.Errorf("%d tokens are kept", n)
	}
}

// A body may be signed twice, for a subaccount and its parent. Neither of the two holds for
// another body then, in whichever place it is put.
func TestBothTokensHoldForOneBody(t *testing.T) {
	p, err := Find("mailgun")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReceiver([]Source{{Name: "a", Provider: p, Secrets: []string{"key", "parent"}}}, Options{Clock: clocktest.At(testNow)})
	receive := func(event string, pairs ...string) error {
		body := fmt.Appendf(nil, `{%s,"event-data":{"event":"%s","timestamp":1761285600}}`, strings.Join(pairs, ","), event)
		_, err := r.Receive(t.Context(), r.Source("mailgun", "a"), &Request{Body: body})
		return err
	}
	own, parent := mailgunPair("signature", "key", "t1"), mailgunPair("parent-signature", "parent", "t2")
	for range 2 {
		if err := receive("opened", own, parent); err != nil {
			t.Errorf("with both: %v", err)
		}
	}
	for name, pairs := range map[string][]string{
		"its own": {own}, "the parent's": {parent}, "the parent's as its own": {mailgunPair("signature", "parent", "t2")},
		"a new one with the parent's": {mailgunPair("signature", "key", "t3"), parent},
	} {
		if err := receive("complained", pairs...); !errors.Is(err, ErrRefused) {
			t.Errorf("another body with %s: %v", name, err)
		}
	}
}

// A token that one process has seen holds for no other body in another one. While nobody
// can be asked it is no refusal: the provider comes again.
func TestTokensHoldInAllProcesses(t *testing.T) {
	p, err := Find("mailgun")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	shared, away := make(map[string]string), errors.New("away")
	first := func(_ context.Context, _ time.Time, token, with string, ttl time.Duration) (string, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if ttl <= mailgunMaxAge {
			t.Errorf("a token is kept for %s", ttl)
		}
		if away != nil {
			return "", false, away
		}
		if shared[token] == "" {
			shared[token] = with
		}
		return shared[token], true, nil
	}
	processes := make([]*Receiver, 2)
	for i := range processes {
		processes[i] = NewReceiver([]Source{{Name: "a", Provider: p, Secrets: []string{"key"}}}, Options{Clock: clocktest.At(testNow), FirstWith: first})
	}
	receive := func(process int, event string) error {
		r := processes[process]
		_, err := r.Receive(t.Context(), r.Source("mailgun", "a"), mailgunRequest("t1", event))
		return err
	}
	if err := receive(0, "opened"); !errors.Is(err, away) || errors.Is(err, ErrRefused) {
		t.Errorf("while nobody can be asked: %v", err)
	}
	away = nil
	for _, x := range []struct {
		process int
		event   string
		good    bool
	}{{0, "opened", true}, {1, "complained", false}, {1, "opened", true}, {0, "opened", true}, {0, "complained", false}} {
		if err := receive(x.process, x.event); (err == nil) != x.good || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// mailgunRequest is a request with a token that is signed by "key".
func mailgunRequest(token, event string) *Request {
	return &Request{Body: fmt.Appendf(nil, `{%s,"event-data":{"event":"%s","timestamp":1761285600}}`, mailgunPair("signature", "key", token), event)}
}

// mailgunPair is a member of a body: a time and a token, signed.
func mailgunPair(member, secret, token string) string {
	seconds := strconv.FormatInt(testNow.Unix(), 10)
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(seconds + token))
	return fmt.Sprintf(`"%s":{"timestamp":"%s","token":"%s","signature":"%s"}`, member, seconds, token, hex.EncodeToString(m.Sum(nil)))
}

// What a stranger sends is not read where the head alone says that it is one.
func TestEarly(t *testing.T) {
	const secret = "user:a-secret-of-a-test"
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("user", "a-secret-of-a-test")
	for _, p := range Providers {
		r := NewReceiver([]Source{{Name: "main", Provider: p, Secrets: []string{secret}}}, Options{})
		s := r.Source(p.Name, "main")
		if err := r.Early(t.Context(), s, &Request{Header: http.Header{}}); (err != nil) != (p.signed != inBody) {
			t.Errorf("%s: nothing is told: %v", p.Name, err)
		}
		if p.signed == "" {
			if err := r.Early(t.Context(), s, &Request{Header: basic.Header}); err != nil {
				t.Errorf("%s: with the password: %v", p.Name, err)
			}
			if err := r.Early(t.Context(), s, &Request{Header: header("Authorization", "Bearer "+secret+"x")}); !errors.Is(err, ErrRefused) {
				t.Errorf("%s: with another secret: %v", p.Name, err)
			}
		} else if err := r.Early(t.Context(), s, &Request{Header: header(p.signed, "x")}); err != nil {
			t.Errorf("%s: with a signature: %v", p.Name, err)
		}
	}
}

// Every element that is made of the examples is an event of ingest, with nothing lost.
func TestElementsAreEvents(t *testing.T) {
	deep := strings.Repeat("[", 62) + strings.Repeat("]", 62)
	for _, p := range Providers {
		all := examples(t, p.Name)
		all = append(all, example{name: "a long id", body: `[{"event":"open","sg_message_id":"` + strings.Repeat("x", 200) + `","deep":` + deep + `,"timestamp":1}]`})
		for _, e := range all {
			found, err := p.Parse(&Request{Body: []byte(e.body)})
			if err != nil {
				continue
			}
			for i := range found.Events {
				one := &found.Events[i]
				text := string(one.AppendElement(nil, "main"))
				var event sluice.Event
				if err := ingest.ParseEvent(text, &ingest.EventOptions{Dedupe: "event_id", StableNow: true}, &event); err != nil {
					t.Errorf("%s, %s: %v\n%s", p.Name, e.name, err, text)
					continue
				}
				if event.Name != one.Type || event.ID != one.EventID || !strings.EqualFold(event.Email, one.Recipient) || one.Timed && event.TimeMillis != one.TimeMillis || len(one.MessageID) <= 128 && event.Message != one.MessageID {
					t.Errorf("%s, %s: %+v of %+v", p.Name, e.name, event, one)
				}
			}
		}
	}
}
