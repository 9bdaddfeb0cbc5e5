package hook

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"hash"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// testNow is far from any clock, so that one that is asked instead is noticed.
var testNow = time.Date(2031, 3, 4, 9, 0, 0, 0, time.UTC)

// signed is one provider's requests, by a secret and a time.
type signed struct {
	provider string
	secrets  [3]string // two that hold in turn, and a foreign one
	timed    bool      // the time is signed
	request  func(secret string, at time.Time) *Request
}

func mac(new func() hash.Hash, key []byte, text string) []byte {
	h := hmac.New(new, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// ecdsaKeys are private keys by the text of their public ones.
func ecdsaKeys(t *testing.T) (texts [3]string, keys map[string]*ecdsa.PrivateKey) {
	t.Helper()
	keys = make(map[string]*ecdsa.PrivateKey)
	for i := range texts {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = base64.StdEncoding.EncodeToString(der)
		if i == 1 { // with the lines of PEM around it
			texts[i] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		}
		keys[texts[i]] = key
	}
	return texts, keys
}

func signers(t *testing.T) []signed {
	t.Helper()
	plain := [3]string{"first", "second", "foreign"}
	publics, privates := ecdsaKeys(t)
	all := []signed{
		{"sendgrid", publics, true, func(secret string, at time.Time) *Request {
			body, seconds := `[{"event":"open"}]`, strconv.FormatInt(at.Unix(), 10)
			sum := sha256.Sum256([]byte(seconds + body))
			signature, err := ecdsa.SignASN1(rand.Reader, privates[secret], sum[:])
			if err != nil {
				t.Fatal(err)
			}
			return &Request{Header: header(sendgridTime, seconds, sendgridSignature, base64.StdEncoding.EncodeToString(signature)), Body: []byte(body)}
		}},
		{"mailgun", plain, true, func(secret string, at time.Time) *Request {
			seconds := strconv.FormatInt(at.Unix(), 10)
			sum := hex.EncodeToString(mac(sha256.New, []byte(secret), seconds+"tok"))
			return &Request{Body: []byte(`{"signature":{"timestamp":"` + seconds + `","token":"tok","signature":"` + sum + `"},"event-data":{"event":"opened"}}`)}
		}},
		{"mailgun", plain, true, func(secret string, at time.Time) *Request { // a subaccount's, which has the parent's too
			seconds := strconv.FormatInt(at.Unix(), 10)
			sum := hex.EncodeToString(mac(sha256.New, []byte(secret), seconds+"tok"))
			return &Request{Body: []byte(`{"signature":{"timestamp":"` + seconds + `","token":"x","signature":"00"},"parent-signature":{"timestamp":"` + seconds + `","token":"tok","signature":"` + sum + `"}}`)}
		}},
		{"mailgun", plain, true, func(secret string, at time.Time) *Request { // the old form
			seconds := strconv.FormatInt(at.Unix(), 10)
			sum := hex.EncodeToString(mac(sha256.New, []byte(secret), seconds+"tok"))
			return &Request{Body: []byte(url.Values{"event": {"opened"}, "timestamp": {"a variable", seconds}, "token": {"tok"}, "signature": {sum}}.Encode())}
		}},
		{"resend", [3]string{"whsec_Zmlyc3Q=", "whsec_c2Vjb25k", "whsec_Zm9yZWlnbg=="}, true, func(secret string, at time.Time) *Request {
			body, seconds := `{"type":"email.sent"}`, strconv.FormatInt(at.Unix(), 10)
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			sum := base64.StdEncoding.EncodeToString(mac(sha256.New, key, "msg_1."+seconds+"."+body))
			return &Request{Header: header("svix-id", "msg_1", "svix-timestamp", seconds, "svix-signature", "v1,AAAA v1,"+sum+" v2,x"), Body: []byte(body)}
		}},
		{"mandrill", plain, false, func(secret string, _ time.Time) *Request {
			const address = "https://hooks.example.com/mandrill?a=b"
			sum := base64.StdEncoding.EncodeToString(mac(sha1.New, []byte(secret), address+"another"+"1"+"mandrill_events"+"[]"))
			return &Request{URL: address, Header: header("X-Mandrill-Signature", sum), Body: []byte("mandrill_events=%5B%5D&another=1")}
		}},
	}
	for _, name := range []string{"ses", "postmark", "sparkpost", "netcore", "brevo", "mailjet"} { // they sign nothing
		all = append(all,
			signed{name, [3]string{"u:first", "u:second", "u:foreign"}, false, func(secret string, _ time.Time) *Request {
				return &Request{Header: header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(secret))), Body: []byte(`{}`)}
			}},
			signed{name, plain, false, func(secret string, _ time.Time) *Request {
				return &Request{Header: header("Authorization", "Bearer "+secret), Body: []byte(`{}`)}
			}},
			signed{name, plain, false, func(secret string, _ time.Time) *Request {
				return &Request{URL: "https://hooks.example.com/x?key=" + secret, Header: http.Header{}, Body: []byte(`{}`)}
			}})
	}
	return all
}

// verify returns whether a request is taken; an error is one of refusal.
func verify(t *testing.T, provider string, r *Request, a *Access) bool {
	t.Helper()
	p, err := Find(provider)
	if err != nil {
		t.Fatal(err)
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	err = p.Verify(context.Background(), r, a)
	if err != nil && !errors.Is(err, ErrRefused) {
		t.Errorf("%s: %v is no refusal", provider, err)
	}
	return err == nil
}

// Requests of each provider are taken by either of two secrets, at about their time, as
// they were made.
func TestVerify(t *testing.T) {
	for _, s := range signers(t) {
		both := func() *Access { return &Access{Secrets: s.secrets[:2], Now: testNow} }
		for _, secret := range s.secrets[:2] {
			if !verify(t, s.provider, s.request(secret, testNow), both()) {
				t.Errorf("%s: a good request is refused", s.provider)
			}
		}
		if verify(t, s.provider, s.request(s.secrets[2], testNow), both()) {
			t.Errorf("%s: one of a foreign secret is taken", s.provider)
		}
		if a := (&Access{Secrets: s.secrets[:], Now: testNow}); verify(t, s.provider, s.request(s.secrets[2], testNow), a) {
			t.Errorf("%s: a third secret holds", s.provider)
		}
		if verify(t, s.provider, s.request(s.secrets[0], testNow), &Access{Now: testNow}) {
			t.Errorf("%s: a request is taken without a secret", s.provider)
		}
		if verify(t, s.provider, &Request{Body: []byte(`{}`)}, both()) || verify(t, s.provider, &Request{}, &Access{Secrets: []string{""}, Now: testNow}) {
			t.Errorf("%s: a request that says nothing is taken", s.provider)
		}
		if s.provider != "sendgrid" && verify(t, s.provider, s.request("", testNow), &Access{Secrets: []string{"", ""}, Now: testNow}) {
			t.Errorf("%s: an empty secret holds", s.provider)
		}
		oldest := -maxAge
		if s.provider == "mailgun" { // it repeats for hours, with the first signature
			oldest = -mailgunMaxAge
		}
		for _, off := range []time.Duration{oldest, maxAge} {
			if !verify(t, s.provider, s.request(s.secrets[0], testNow.Add(off)), both()) {
				t.Errorf("%s: a request of %s is refused", s.provider, off)
			}
			if late := off + off/300; s.timed && verify(t, s.provider, s.request(s.secrets[0], testNow.Add(late)), both()) {
				t.Errorf("%s: a request of %s is taken", s.provider, late)
			}
		}
	}
}

// A byte more, in the body or in what is signed beside it, is another request.
func TestTamperedRequests(t *testing.T) {
	for _, s := range signers(t) {
		a := &Access{Secrets: s.secrets[:2], Now: testNow}
		changes := map[string]func(r *Request){}
		switch s.provider {
		case "sendgrid", "resend":
			changes["body"] = func(r *Request) { r.Body = append(r.Body, ' ') }
			changes["time"] = func(r *Request) {
				for _, name := range []string{sendgridTime, "svix-timestamp"} {
					if r.Header.Get(name) != "" {
						r.Header.Set(name, strconv.FormatInt(testNow.Unix()+1, 10))
					}
				}
			}
		case "mailgun":
			changes["token"] = func(r *Request) { r.Body = []byte(strings.Replace(string(r.Body), "tok\"", "tik\"", 1)) }
			if !strings.HasPrefix(string(s.request("first", testNow).Body), "{") {
				changes["token"] = func(r *Request) { r.Body = []byte(strings.Replace(string(r.Body), "token=tok", "token=tik", 1)) }
			}
		case "mandrill":
			changes["body"] = func(r *Request) { r.Body = append(r.Body, "&x=1"...) }
			changes["URL"] = func(r *Request) { r.URL += "c" }
			changes["signature"] = func(r *Request) { r.Header.Set("X-Mandrill-Signature", "") }
		}
		for name, change := range changes {
			r := s.request(s.secrets[0], testNow)
			if change(r); verify(t, s.provider, r, a) {
				t.Errorf("%s: another %s is taken", s.provider, name)
			}
		}
	}
	svixID := signers(t)[4].request("whsec_Zmlyc3Q=", testNow)
	svixID.Header.Set("svix-id", "msg_2")
	if verify(t, "resend", svixID, &Access{Secrets: []string{"whsec_Zmlyc3Q="}, Now: testNow}) {
		t.Error("resend: another id is taken")
	}
}

// sns makes messages that SNS could have signed, and a certificate for them.
type sns struct {
	key         *rsa.PrivateKey
	certificate []byte
	fetched     int
}

var snsTestKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// newSNS makes a root, an intermediate that it issues, and a certificate of the
// intermediate for a host, from an hour before testNow to an hour after it. As at SNS,
// the text has the last one alone.
func newSNS(t *testing.T, host string) *sns {
	t.Helper()
	key, err := snsTestKey()
	if err != nil {
		t.Fatal(err)
	}
	s := &sns{key: key}
	var issuer *x509.Certificate // the one before
	var signer crypto.Signer
	for i, c := range []*x509.Certificate{
		{Subject: pkix.Name{CommonName: "Root"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign},
		{Subject: pkix.Name{CommonName: "Intermediate"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign},
		{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, KeyUsage: x509.KeyUsageDigitalSignature},
	} {
		c.SerialNumber, c.BasicConstraintsValid = big.NewInt(int64(i+1)), true
		c.NotBefore, c.NotAfter = testNow.Add(-time.Hour), testNow.Add(time.Hour)
		if issuer == nil {
			issuer, signer = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, issuer, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		issuer, s.certificate = c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return s
}

const testTopic = "arn:aws:sns:eu-west-1:123456789012:ses-events"

func (s *sns) access() *Access {
	return &Access{Topics: []string{"arn:aws:sns:eu-west-1:123456789012:other", testTopic}, Now: testNow,
		Certificates: func(context.Context, string) ([]byte, error) { s.fetched++; return s.certificate, nil }}
}

// message signs a message; change changes it before, spoil after that.
func (s *sns) message(t *testing.T, change, spoil func(m map[string]string)) *Request {
	t.Helper()
	m := map[string]string{
		"Type": snsNotification, "MessageId": "m1", "TopicArn": testTopic, "Message": `{"eventType":"Send"}`, "Timestamp": testNow.Format("2006-01-02T15:04:05.000Z"),
		"SignatureVersion": "2", "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abc.pem",
	}
	if change != nil {
		change(m)
	}
	names := []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	if m["Type"] != snsNotification {
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	}
	text := ""
	for _, name := range names {
		if value, there := m[name]; there {
			text += name + "\n" + value + "\n"
		}
	}
	method, sum := crypto.SHA256, sha256.New()
	if m["SignatureVersion"] == "1" {
		method, sum = crypto.SHA1, sha1.New()
	}
	sum.Write([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, method, sum.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	m["Signature"] = base64.StdEncoding.EncodeToString(signature)
	head := header(snsTypeHeader, m["Type"])
	if spoil != nil {
		spoil(m)
	}
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Header: head, Body: body}
}

func set(name, value string) func(map[string]string) {
	return func(m map[string]string) { m[name] = value }
}

func TestVerifySNS(t *testing.T) {
	s := newSNS(t, "sns.amazonaws.com")
	at := func(off time.Duration) func(map[string]string) {
		return set("Timestamp", testNow.Add(off).Format("2006-01-02T15:04:05.000Z"))
	}
	confirm := func(m map[string]string) {
		m["Type"], m["Token"], m["SubscribeURL"] = snsConfirmation, "t", "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"
	}
	for name, tt := range map[string]struct {
		change, spoil func(map[string]string)
		good          bool
	}{
		"version 2":           {nil, nil, true},
		"version 1":           {set("SignatureVersion", "1"), nil, true},
		"a subject":           {set("Subject", "hello"), nil, true},
		"a confirmation":      {confirm, nil, true},
		"an hour old":         {at(-snsMaxAge), nil, true},
		"too old":             {at(-snsMaxAge - time.Second), nil, false},
		"of the future":       {at(maxAge + time.Second), nil, false},
		"another message":     {nil, set("Message", "{}"), false},
		"another id":          {nil, set("MessageId", "m2"), false},
		"a subject put in":    {nil, set("Subject", "x"), false},
		"another token":       {confirm, set("Token", "u"), false},
		"another version":     {nil, set("SignatureVersion", "1"), false},
		"version 3":           {set("SignatureVersion", "3"), nil, false},
		"another topic":       {set("TopicArn", "arn:aws:sns:eu-west-1:999999999999:ses-events"), nil, false},
		"another type":        {nil, set("Type", snsUnsubscribed), false},
		"a type of no one":    {set("Type", "Teleport"), nil, false},
		"no signature":        {nil, set("Signature", ""), false},
		"a signature of text": {nil, set("Signature", "%%"), false},
		"no time":             {set("Timestamp", "yesterday"), nil, false},
	} {
		if verify(t, "ses", s.message(t, tt.change, tt.spoil), s.access()) != tt.good {
			t.Errorf("%s: taken is not %v", name, tt.good)
		}
	}
	other := s.message(t, nil, nil)
	if other.Header.Set(snsTypeHeader, snsConfirmation); verify(t, "ses", other, s.access()) {
		t.Error("a message is taken whose header has another type")
	}
	none := s.access()
	none.Topics = nil
	if verify(t, "ses", s.message(t, nil, nil), none) {
		t.Error("a message is taken without a topic of ours")
	}
	none = s.access()
	none.Certificates = nil
	if verify(t, "ses", s.message(t, nil, nil), none) {
		t.Error("a message is taken without a certificate")
	}
	// A secret makes no signature unnecessary.
	none = s.access()
	none.Secrets = []string{"first"}
	forged := s.message(t, nil, set("Message", "{}"))
	forged.URL = "https://hooks.example.com/?key=first"
	if verify(t, "ses", forged, none) {
		t.Error("a forged message is taken by a secret")
	}
}

// A certificate of SNS is known by its name and its time, as AWS's SDKs know it: the text
// that SNS has leads to no root.
func TestCertificatesOfSNS(t *testing.T) {
	good := newSNS(t, "sns.eu-west-1.amazonaws.com")
	if !verify(t, "ses", good.message(t, nil, nil), good.access()) {
		t.Error("the certificate of the host is refused")
	}
	for _, after := range []time.Duration{-time.Hour - time.Second, time.Hour + time.Second} {
		a := good.access()
		a.Now = testNow.Add(after)
		if verify(t, "ses", good.message(t, set("Timestamp", a.Now.Format(time.RFC3339)), nil), a) {
			t.Errorf("a certificate is taken %s after it was made", time.Hour+after)
		}
	}
	for name, taken := range map[string][]string{ // and which hosts' they are
		"sns.amazonaws.com":                    {"eu-west-1.amazonaws.com", "us-east-1.amazonaws.com", "eu-south-1.amazonaws.com"},
		"sns-signing.eu-south-1.amazonaws.com": {"eu-south-1.amazonaws.com"},
		"sns-us-gov-west-1.amazonaws.com":      {"us-gov-west-1.amazonaws.com", "us-gov-east-1.amazonaws.com"},
		"sns-cn-north-1.amazonaws.com.cn":      {"cn-north-1.amazonaws.com.cn"},
		"sns.example.com":                      nil,
		"sns.amazonaws.com.example.com":        nil,
	} {
		s := newSNS(t, name)
		for _, region := range []string{"eu-west-1.amazonaws.com", "us-east-1.amazonaws.com", "eu-south-1.amazonaws.com", "us-gov-west-1.amazonaws.com", "us-gov-east-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"} {
			address := "https://sns." + region + "/SimpleNotificationService-0.pem"
			want := slices.Contains(taken, region)
			if verify(t, "ses", s.message(t, set("SigningCertURL", address), nil), s.access()) != want {
				t.Errorf("the certificate of %s at %s: taken is not %v", name, region, want)
			}
		}
	}
	for _, address := range []string{
		"http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com.example.com/SimpleNotificationService-0.pem",
		"https://example.com/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com@example.com/SimpleNotificationService-0.pem",
		"https://user@sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com:443/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com/bucket/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem?x=.pem",
		"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem#x",
		"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-..%2Fx.pem",
		"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-../x.pem",
		"https://s3.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns.evil.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns..amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns.eu-west-1.amazonaws.com\n.example.com/SimpleNotificationService-0.pem",
		"sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https:sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"",
	} {
		before := good.fetched
		if verify(t, "ses", good.message(t, set("SigningCertURL", address), nil), good.access()) || good.fetched != before {
			t.Errorf("%q is fetched", address)
		}
	}
	for _, address := range []string{
		"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9c6465fa7f48f5cacd23014631ec1136.pem",
		"https://sns.us-gov-west-1.amazonaws.com/SimpleNotificationService-0.pem",
		"https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-0.pem",
	} {
		if err := SNSCertificateURL(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	before := good.fetched
	if verify(t, "ses", good.message(t, set("TopicArn", "arn:aws:sns:eu-west-1:1:x"), nil), good.access()); good.fetched != before {
		t.Error("a certificate is fetched for a foreign topic")
	}
}

// What confirms a subscription is on the host of the topic's region, whatever the message
// says.
func TestConfirmation(t *testing.T) {
	for topic, want := range map[string]string{
		testTopic: "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=a%26b&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Ases-events&Version=2010-03-31",
		"arn:aws-cn:sns:cn-north-1:123456789012:t":  "https://sns.cn-north-1.amazonaws.com.cn/?Action=ConfirmSubscription&Token=a%26b&TopicArn=arn%3Aaws-cn%3Asns%3Acn-north-1%3A123456789012%3At&Version=2010-03-31",
		"arn:aws:sns:x.example.com/:123456789012:t": "",
		"": "",
	} {
		body, err := json.Marshal(map[string]string{"Type": snsConfirmation, "TopicArn": topic, "Token": "a&b", "SubscribeURL": "https://example.com/"})
		if err != nil {
			t.Fatal(err)
		}
		r := parse(t, "ses", string(body))
		if len(r.Events) != 0 || r.Confirmation == nil || r.Confirmation.Ended || r.Confirmation.URL() != want {
			t.Errorf("%s: %d events, %+v, %s", topic, len(r.Events), r.Confirmation, r.Confirmation.URL())
		}
	}
	if r := parse(t, "ses", `{"Type":"UnsubscribeConfirmation","TopicArn":"`+testTopic+`","Token":"x"}`); !r.Confirmation.Ended {
		t.Error("the end of a subscription is taken for its beginning")
	}
}

// Of a form with a field twice one would be signed and the other one read: who has one signed
// request could have anything taken.
func TestMandrillFieldTwice(t *testing.T) {
	const address = "https://hooks.example.com/mandrill"
	sum := base64.StdEncoding.EncodeToString(mac(sha1.New, []byte("first"), address+"mandrill_events"+"[]"))
	for body, want := range map[string]bool{"mandrill_events=%5B%5D": true, "mandrill_events=%5B7%5D&mandrill_events=%5B%5D": false, "mandrill_events=%5B%5D&mandrill_events=%5B%5D": false} {
		r := &Request{URL: address, Header: header("X-Mandrill-Signature", sum), Body: []byte(body)}
		if got := verify(t, "mandrill", r, &Access{Secrets: []string{"first"}}); got != want {
			t.Errorf("%s: taken: %v, want %v", body, got, want)
		}
	}
}
