package ses

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"
)

// Credentials are of an AWS user or role that may ses:SendEmail, ses:SendRawEmail.
type Credentials struct {
	AccessKey, SecretKey string
	SessionToken         string // of temporary ones
}

// FromEnvironment reads the variables that all of AWS's tools read. They are
// static: temporary ones need a restart of the program with each new set.
func FromEnvironment(getenv func(string) string) (Credentials, error) {
	c := Credentials{AccessKey: getenv("AWS_ACCESS_KEY_ID"), SecretKey: getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: getenv("AWS_SESSION_TOKEN")}
	if c.AccessKey == "" || c.SecretKey == "" {
		return c, errors.New("find credentials of AWS: AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not in the environment; set both, or access_key and secret_key")
	}
	return c, nil
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	service   = "ses" // what requests are signed for, whatever the endpoint is called

	timeFormat = "20060102T150405Z"
	dateFormat = "20060102"
)

// sign adds to a request what AWS's Signature Version 4 wants: the time, the
// token of temporary credentials, and the signature. The signature covers them,
// the host, the type of the content, and the content
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html).
// path is as the canonical request has it: what the request's path has escaped
// is escaped once more. There is no query.
func (c *Credentials) sign(header http.Header, method, host, path, region string, body []byte, now time.Time) {
	now = now.UTC()
	header.Set("X-Amz-Date", now.Format(timeFormat))
	names, values := "host;x-amz-date", "host:"+host+"\nx-amz-date:"+now.Format(timeFormat)+"\n"
	if kind := header.Get("Content-Type"); kind != "" {
		names, values = "content-type;"+names, "content-type:"+kind+"\n"+values
	}
	if c.SessionToken != "" {
		header.Set("X-Amz-Security-Token", c.SessionToken)
		names += ";x-amz-security-token"
		values += "x-amz-security-token:" + c.SessionToken + "\n"
	}
	request := method + "\n" + path + "\n\n" + values + "\n" + names + "\n" + hash(body)
	scope := now.Format(dateFormat) + "/" + region + "/" + service + "/aws4_request"
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range [...]string{now.Format(dateFormat), region, service, "aws4_request"} {
		key = mac(key, part)
	}
	signature := hex.EncodeToString(mac(key, algorithm+"\n"+now.Format(timeFormat)+"\n"+scope+"\n"+hash([]byte(request))))
	header.Set("Authorization", algorithm+" Credential="+c.AccessKey+"/"+scope+", SignedHeaders="+names+", Signature="+signature)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
