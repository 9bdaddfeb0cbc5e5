package hook

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The types of a message of SNS, and the header that repeats it.
const (
	snsNotification = "Notification"
	snsConfirmation = "SubscriptionConfirmation"
	snsUnsubscribed = "UnsubscribeConfirmation"

	snsTypeHeader = "X-Amz-Sns-Message-Type"
)

// snsMaxAge is how old a message of SNS may be. SNS signs the time once. It repeats a
// message for a minute by default, and for 3,600 seconds if a delivery policy says so.
const snsMaxAge = time.Hour + maxAge

// Confirmation is what SNS asks before it posts events, or after it was told to stop.
type Confirmation struct {
	Topic string // its ARN
	Token string
	Ended bool // the subscription was ended; with the token it would begin again
}

// snsTopic is the ARN of a topic: partition, region, account, name.
var snsTopic = regexp.MustCompile(`^arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2}(?:-[a-z]+)+-[0-9]):[0-9]{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?$`)

// IsTopic reports whether a text is the ARN of a topic.
func IsTopic(text string) bool { return snsTopic.MatchString(text) }

// URL returns what a GET of confirms the subscription, or "" if the topic is none. It is
// made of the topic, not taken from the message, so that no message makes us call
// another server.
func (c *Confirmation) URL() string {
	parts := snsTopic.FindStringSubmatch(c.Topic)
	if parts == nil {
		return ""
	}
	host := "sns." + parts[2] + ".amazonaws.com"
	if parts[1] == "aws-cn" {
		host += ".cn"
	}
	query := url.Values{"Action": {"ConfirmSubscription"}, "TopicArn": {c.Topic}, "Token": {c.Token}, "Version": {"2010-03-31"}}
	return "https://" + host + "/?" + query.Encode()
}

// confirm notes that SNS asks for a confirmation.
func (out *Result) confirm(o object, kind string) {
	c := &Confirmation{
		Topic: lineUpTo(o.text("TopicArn"), MaxTextBytes),
		Token: lineUpTo(o.text("Token"), MaxTextBytes),
		Ended: kind == snsUnsubscribed,
	}
	out.Confirmation = c
	if c.Ended {
		out.Notes = append(out.Notes, "the subscription to the topic "+c.Topic+" was ended; nothing is to be done unless that was a mistake")
	} else {
		out.Notes = append(out.Notes, "SNS asks to confirm the subscription to the topic "+c.Topic)
	}
}

// snsHost is the host of SNS in a region.
var snsHost = regexp.MustCompile(`^sns\.[a-z]{2}(?:-[a-z]+)+-[0-9]\.amazonaws\.com(?:\.cn)?$`)

// snsCertificate is the path of a certificate.
var snsCertificate = regexp.MustCompile(`^/SimpleNotificationService-[A-Za-z0-9]+\.pem$`)

// SNSCertificateURL says whether a certificate of SNS may be fetched from a URL. An
// address of a stranger, in a message that nobody has verified, would have us call any
// server. An error says what is wrong with it.
func SNSCertificateURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return refuse("its SigningCertURL is no URL")
	case u.Scheme != "https":
		return refuse("its SigningCertURL is not https")
	case u.User != nil || !snsHost.MatchString(u.Host): // a port would be part of Host
		return refuse("its SigningCertURL is not on a host of SNS")
	case !snsCertificate.MatchString(u.Path) || u.RawPath != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return refuse("its SigningCertURL is no certificate of SNS")
	}
	return nil
}

// checkSNS checks a message of SNS: type, topic, time, certificate, signature. Nothing is
// fetched for a message of a topic that is not ours.
func (a *Access) checkSNS(ctx context.Context, o object, typeHeader string) error {
	kind, topic := o.text("Type"), o.text("TopicArn")
	switch {
	case kind != snsNotification && kind != snsConfirmation && kind != snsUnsubscribed:
		return refuse("its type is none of SNS")
	case typeHeader != kind:
		return refuse("the header %s is not the type of the body", snsTypeHeader)
	case !slices.Contains(a.Topics, topic):
		return refuse("the topic %.300q is none of ours", topic)
	}
	at, err := time.Parse(time.RFC3339, o.text("Timestamp"))
	if err != nil {
		return refuse("it has no time")
	}
	if err := a.checkTime(at, snsMaxAge); err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(o.text("Signature"))
	if err != nil || len(signature) == 0 {
		return refuse("it has no signature in base64")
	}
	// JSON of SNS for Lambda has the key with another spelling.
	key, err := a.snsKey(ctx, cmp.Or(o.text("SigningCertURL"), o.text("SigningCertUrl")))
	if err != nil {
		return err
	}
	hash, sum := snsSum(o, kind)
	if sum == nil {
		return refuse("its SignatureVersion is neither 1 nor 2")
	}
	if err := rsa.VerifyPKCS1v15(key, hash, sum, signature); err != nil {
		return refuse("its signature is wrong")
	}
	return nil
}

// snsSum hashes what SNS signs: names and values of members, each followed by a line
// break, the last one too. Version 1 is SHA-1, version 2 is SHA-256.
func snsSum(o object, kind string) (crypto.Hash, []byte) {
	names := []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	if kind != snsNotification {
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	}
	var b strings.Builder
	for _, name := range names {
		if value, there := o[name]; there && (name != "Subject" || textOf(value) != "") {
			b.WriteString(name + "\n" + textOf(value) + "\n")
		}
	}
	switch o.text("SignatureVersion") {
	case "1":
		sum := sha1.Sum([]byte(b.String()))
		return crypto.SHA1, sum[:]
	case "2":
		sum := sha256.Sum256([]byte(b.String()))
		return crypto.SHA256, sum[:]
	}
	return 0, nil
}

// snsKey returns the key of the certificate at a URL. That the certificate cannot be
// fetched is no refusal: SNS drops what is refused for good.
//
// It checks what AWS's own SDKs check: the host, the name in the certificate, its time.
// There is no chain to check. The text has that certificate alone, and the certificates
// that lead from it to a root of the system are nowhere in it. That the text came from
// the host of SNS, by TLS that was verified, says that the certificate is that of SNS.
func (a *Access) snsKey(ctx context.Context, address string) (*rsa.PublicKey, error) {
	if err := SNSCertificateURL(address); err != nil {
		return nil, err
	}
	if a.Certificates == nil {
		return nil, refuse("certificates of SNS cannot be fetched")
	}
	text, err := a.Certificates(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCertificate, err)
	}
	certificate, err := readCertificate(text)
	if err != nil {
		return nil, refuse("read the certificate: %v", err)
	}
	if a.Now.Before(certificate.NotBefore) || a.Now.After(certificate.NotAfter) {
		return nil, refuse("the certificate is valid from %s to %s alone", certificate.NotBefore.Format(time.RFC3339), certificate.NotAfter.Format(time.RFC3339))
	}
	u, _ := url.Parse(address) // SNSCertificateURL has
	if !slices.ContainsFunc(snsNames(u.Hostname()), func(name string) bool { return certificate.VerifyHostname(name) == nil }) {
		return nil, refuse("the certificate is not that of SNS")
	}
	key, ok := certificate.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, refuse("the certificate has no RSA key")
	}
	return key, nil
}

// snsNames are the names that a certificate of a host of SNS may have: that of the host,
// and those that AWS's SDK for Java knows (its SnsHostProvider). Most regions share one.
// Regions that an account has to switch on have sns-signing.REGION.
func snsNames(host string) []string {
	region := strings.TrimPrefix(host, "sns.") // with its domain
	switch {
	case strings.HasPrefix(region, "cn-"):
		return []string{host, "sns-" + region}
	case strings.HasPrefix(region, "us-gov-"):
		return []string{host, "sns-us-gov-west-1.amazonaws.com"}
	}
	return []string{host, "sns.amazonaws.com", "sns-signing." + region}
}

// readCertificate reads a certificate in PEM, the first if there are several.
func readCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is no PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
