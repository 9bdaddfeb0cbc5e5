package ses

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/aws/aws-sdk-go-v2/service/sesv2/types"

	"sluice"
	"sluice/mail"
	"sluice/test/clocktest"
)

const sendID = "019a0000000000000000000000000abc.17"

var (
	testNow  = time.Date(2026, 11, 21, 17, 59, 58, 0, time.UTC)
	testKeys = Credentials{AccessKey: "AKIDEXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	envelope = mail.Envelope{Send: sendID, From: "bounce+1=x@news.example.com", To: "ann@example.org", Content: []byte("Subject: <hi> & \"bye\"\r\n\r\nhello\r\n"), Tags: []string{"welcome", "Größe: 5%", ""}}
)

func open(t *testing.T, s Settings) *Transport {
	t.Helper()
	if s.Region == "" {
		s.Region = "eu-west-1"
	}
	if s.Credentials == (Credentials{}) {
		s.Credentials = testKeys
	}
	tr, err := New(s, clocktest.At(testNow))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// deliver attempts one envelope.
func deliver(t *testing.T, ctx context.Context, tr *Transport, e mail.Envelope) mail.Result {
	t.Helper()
	var results []mail.Result
	tr.Deliver(ctx, []mail.Envelope{e}, func(i int, r mail.Result) {
		if i != 0 {
			t.Errorf("done(%d) of one envelope", i)
		}
		results = append(results, r)
	})
	if len(results) != 1 {
		t.Fatalf("%d results of one envelope", len(results))
	}
	return results[0]
}

// request is what a server got.
type request struct {
	method string
	path   string
	header http.Header
	host   string
	body   []byte
}

// server answers each request with a status, a type of error and a body.
func server(t *testing.T, status int, errorType, body string) (address string, last func() request) {
	t.Helper()
	got := make(chan request, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{r.Method, r.URL.EscapedPath(), r.Header, r.Host, b}
		if errorType != "" {
			w.Header().Set("X-Amzn-Errortype", errorType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() request { return <-got }
}

// AWS's own signer comes to the same signature.
func TestSignature(t *testing.T) {
	for name, keys := range map[string]Credentials{"static": testKeys, "temporary": {AccessKey: "ASIA", SecretKey: "s", SessionToken: "FwoG/+=="}} {
		address, last := server(t, 200, "", `{"MessageId":"m"}`)
		tr := open(t, Settings{Endpoint: address, Credentials: keys, ConfigurationSet: "news"})
		if r := deliver(t, t.Context(), tr, envelope); r.Kind != mail.ResultSent {
			t.Fatalf("%s: %+v", name, r)
		}
		got := last()
		want, err := http.NewRequest(http.MethodPost, address+sendPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Header.Set("Content-Type", "application/json")
		err = v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: keys.AccessKey, SecretAccessKey: keys.SecretKey, SessionToken: keys.SessionToken},
			want, hash(got.body), "ses", "eu-west-1", testNow)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
			if got.header.Get(h) != want.Header.Get(h) {
				t.Errorf("%s: %s is\n%s, AWS's signer says\n%s", name, h, got.header.Get(h), want.Header.Get(h))
			}
		}
	}
}

// AWS's own client makes the same request of the same mail.
func TestRequest(t *testing.T) {
	address, last := server(t, 200, "", `{"MessageId":"010201"}`)
	tr := open(t, Settings{Endpoint: address + "/", ConfigurationSet: "news"})
	r := deliver(t, t.Context(), tr, envelope)
	if r.Kind != mail.ResultSent || r.ID != "010201" || r.Code != 200 || r.Remote != strings.TrimPrefix(address, "http://") || r.Took[mail.StageWait] <= 0 {
		t.Errorf("%+v", r)
	}
	ours := last()
	tag := func(name, value string) types.MessageTag {
		return types.MessageTag{Name: aws.String(name), Value: aws.String(value)}
	}
	client := sesv2.New(sesv2.Options{Region: "eu-west-1", BaseEndpoint: aws.String(address), RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		})})
	_, err := client.SendEmail(t.Context(), &sesv2.SendEmailInput{
		FromEmailAddress: aws.String(envelope.From), Destination: &types.Destination{ToAddresses: []string{envelope.To}},
		Content: &types.EmailContent{Raw: &types.RawMessage{Data: envelope.Content}}, ConfigurationSetName: aws.String("news"),
		EmailTags: []types.MessageTag{tag(SendTag, strings.ReplaceAll(sendID, ".", "-")), tag("sluice-tag-1", "welcome"), tag("sluice-tag-2", "Gr----e--5-"), tag("sluice-tag-3", "-")},
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs := last()
	var a, b any
	if json.Unmarshal(ours.body, &a) != nil || json.Unmarshal(theirs.body, &b) != nil || !reflect.DeepEqual(a, b) || ours.path != theirs.path ||
		ours.header.Get("Content-Type") != theirs.header.Get("Content-Type") {
		t.Errorf("ours   %s %s\ntheirs %s %s", ours.path, ours.body, theirs.path, theirs.body)
	}
}

func TestJudge(t *testing.T) {
	const (
		sent, deferred, failed, doubt = mail.ResultSent, mail.ResultDeferred, mail.ResultFailed, mail.ResultInDoubt
		route, message                = mail.BlameRoute, mail.BlameMessage
	)
	for _, c := range []struct {
		status           int
		errorType, body  string
		kind             mail.ResultKind
		blame            mail.Blame
		throttled, later bool
	}{
		{200, "", `{"MessageId":"m"}`, sent, 0, false, false},
		{200, "", `{"Messa`, sent, 0, false, false},
		{429, "TooManyRequestsException", `{"message":"Too many requests"}`, deferred, route, true, false},
		{400, "ThrottlingException:http://internal.amazon.com/coral/", `{"message":"Rate exceeded"}`, deferred, route, true, false},
		{400, "", `{"__type":"com.amazonaws.ses#Throttling","Message":"Maximum sending rate exceeded."}`, deferred, route, true, false},
		{429, "TooManyRequestsException", `{"message":"Daily message quota exceeded."}`, deferred, route, true, true},
		{429, "", ``, deferred, route, true, false},
		{400, "LimitExceededException", `{}`, deferred, route, true, true},
		{400, "MessageRejected", `{"message":"Email address is not verified. The following identities failed the check in region EU-WEST-1: a@b.c"}`, deferred, route, false, true},
		{400, "MessageRejected", `{"message":"Message contained illegal attachment"}`, failed, message, false, false},
		{400, "MailFromDomainNotVerifiedException", `{}`, deferred, route, false, true},
		{400, "AccountSuspendedException", `{}`, deferred, route, false, true},
		{400, "SendingPausedException", `{}`, deferred, route, false, true},
		{400, "BadRequestException", `{"message":"Missing final '@domain'"}`, failed, message, false, false},
		{404, "NotFoundException", `{"message":"Configuration set <x> does not exist."}`, deferred, route, false, false},
		{403, "", `{"message":"The security token included in the request is invalid."}`, deferred, route, false, false},
		{403, "SignatureDoesNotMatch", `{}`, deferred, route, false, false},
		{413, "", `too large`, failed, message, false, false},
		{418, "BrandNewException", `{}`, deferred, route, false, false},
		{302, "", ``, deferred, route, false, false},
		{500, "InternalServiceErrorException", `{}`, doubt, route, false, false},
		{502, "", `<html>`, doubt, route, false, false},
		{503, "ServiceUnavailable", `{}`, doubt, route, false, false},
		{504, "", ``, doubt, route, false, false},
	} {
		address, _ := server(t, c.status, c.errorType, c.body)
		r := deliver(t, t.Context(), open(t, Settings{Endpoint: address}), envelope)
		if r.Kind != c.kind || r.Blame != c.blame || r.Throttled != c.throttled || (r.RetryAfter > 0) != c.later || r.Code != c.status || r.Text == "" {
			t.Errorf("%d %s %s: %+v", c.status, c.errorType, c.body, r)
		}
		if ofSender := strings.Contains(strings.ToLower(c.errorType+c.body), "verified"); r.OfSender != ofSender {
			t.Errorf("%d %s %s: of the sender alone is %v", c.status, c.errorType, c.body, r.OfSender)
		}
		if down := r.Blame == route && !r.Throttled; (r.Cause != "") != down {
			t.Errorf("%d %s %s: its cause is %q", c.status, c.errorType, c.body, r.Cause)
		}
	}
}

// An answer that does not come leaves the mail in doubt, and it is not sent again.
func TestNoAnswer(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	r := deliver(t, t.Context(), open(t, Settings{Endpoint: s.URL}), envelope)
	if r.Kind != mail.ResultInDoubt || r.Blame != mail.BlameRoute || asked.Load() != 1 {
		t.Errorf("asked %d times: %+v", asked.Load(), r)
	}
}

// Where nobody listens, and where ctx has ended, nothing was tried; and what SES
// cannot take is not sent to it.
func TestUntried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	tr := open(t, Settings{Endpoint: "http://" + l.Addr().String()})
	if r := deliver(t, t.Context(), tr, envelope); r.Kind != mail.ResultUntried || r.Blame != mail.BlameRoute {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := deliver(t, ctx, tr, envelope); r.Kind != mail.ResultUntried || r.Blame != mail.BlameNobody {
		t.Errorf("%+v", r)
	}
	e := envelope
	e.To = "jürgen@example.org"
	if r := deliver(t, t.Context(), tr, e); r.Kind != mail.ResultFailed || r.Blame != mail.BlameMessage || r.Enhanced != "5.6.7" {
		t.Errorf("%+v", r)
	}
}

func TestSettings(t *testing.T) {
	good := Settings{Name: "ses", Region: "cn-north-1", Credentials: testKeys}
	tr, err := New(good, clocktest.At(testNow))
	if err != nil || tr.url != "https://email.cn-north-1.amazonaws.com.cn" || tr.Workers() != DefaultWorkers || tr.Window() != 1 || tr.Name() != "ses" {
		t.Errorf("%+v %v", tr, err)
	}
	for want, change := range map[string]func(*Settings){
		"region is \"Ireland\"": func(s *Settings) { s.Region = "Ireland" },
		"endpoint is no":        func(s *Settings) { s.Endpoint = "https://user:hunter2@h" },
		"secret_key is missing": func(s *Settings) { s.Credentials.SecretKey = "" },
		"workers is 2000":       func(s *Settings) { s.Workers = 2000 },
		"timeout is 1h0m0s":     func(s *Settings) { s.Timeout = time.Hour },
	} {
		s := good
		change(&s)
		if _, err := New(s, clocktest.At(testNow)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err = FromEnvironment(func(name string) string { return map[string]string{"AWS_ACCESS_KEY_ID": "a"}[name] })
	if err == nil {
		t.Error("half of the credentials are enough")
	}
}

func BenchmarkDeliver(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"MessageId":"m"}`)
	}))
	defer s.Close()
	tr, err := New(Settings{Region: "eu-west-1", Endpoint: s.URL, Credentials: testKeys}, sluice.SystemClock{})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	e := envelope
	e.Content = []byte(strings.Repeat("0123456789abcdef\r\n", 1000))
	b.SetBytes(int64(len(e.Content)))
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			tr.Deliver(context.Background(), []mail.Envelope{e}, func(_ int, r mail.Result) {
				if r.Kind != mail.ResultSent {
					b.Errorf("%+v", r)
				}
			})
		}
	})
}
