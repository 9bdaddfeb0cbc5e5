package webhook

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/store"
	"sluice/track/feed"
	"sluice/user/profile"
)

// Messages are those of Standard Webhooks 1.0.0
// (github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md): the
// headers below, and a body with type, timestamp and data. The signed text is
// ID.TIMESTAMP.BODY; a signature is v1, a comma, and the HMAC-SHA256 in base64.
// During a rotation there are two, separated by a blank.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"

	secretPrefix = "whsec_"

	// RotationOverlap is how long the secret before signs as well.
	RotationOverlap = 24 * time.Hour

	// TypeBatch is the type of a message with several events, TypeTest that of one that
	// an operator has asked for.
	TypeBatch = "events.batch"
	TypeTest  = "webhook.test"
)

// maxBodyBytes ends a batch: the event that passes it is the last.
const maxBodyBytes = 1 << 20

// Secrets are made of one root, so that a row needs to keep only their number.
type Secrets struct{ Root []byte }

// Of returns the secret of an endpoint with a number.
func (s *Secrets) Of(id string, number int) []byte {
	key, err := hkdf.Key(sha256.New, s.Root, nil, "webhook/"+id+"/"+strconv.Itoa(number), sha256.Size)
	if err != nil {
		panic(err) // only of a length beyond 255 hashes (RFC 5869, 2.3)
	}
	return key
}

// Text is a secret as receivers are given it.
func Text(secret []byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(secret) }

// Mark is what a secret is known by without being told.
func Mark(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:8])
}

// signatures returns the value of HeaderSignature.
func (s *Secrets) signatures(w *store.Webhook, id string, at time.Time, body []byte) string {
	all := []string{sign(s.Of(w.ID, w.Secret), id, at, body)}
	if w.RotatedMillis != 0 && at.Sub(time.UnixMilli(w.RotatedMillis)) < RotationOverlap {
		all = append(all, sign(s.Of(w.ID, w.Secret-1), id, at, body))
	}
	return strings.Join(all, " ")
}

func sign(secret []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// headers are those of a message.
func (s *Secrets) headers(w *store.Webhook, id string, at time.Time, body []byte) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"sluice"},
		HeaderID: {id}, HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)}, HeaderSignature: {s.signatures(w, id, at, body)},
	}
}

// messageID names a batch: what lies between two places for an endpoint. It is the same
// each time it is posted. Both places are in it, since a batch that is read again after
// a replay may end where another one has ended.
func messageID(id string, after, to sluice.Place) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %d %s %d", id, after.Partition, after.Position, after.Index, to.Position, to.Index))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// batch is events that go in one request.
type batch struct {
	events [][]byte // as JSON
	first  sluice.Event
	end    sluice.Place
	more   bool // there may be events behind it already
	size   int
}

func (b *batch) add(w *store.Webhook, e *sluice.Event) {
	var text []byte
	if w.Format == FormatBraze {
		text = brazeBody(e)
		if text == nil {
			return
		}
	} else {
		text = feed.Append(nil, e)
	}
	if len(b.events) == 0 {
		b.first = *e
	}
	b.events = append(b.events, text)
	b.size += len(text)
}

// body is the body of a request: with one event to a request it has the type of the
// event, else always the form of a batch.
func (b *batch) body(w *store.Webhook, at time.Time) []byte {
	if w.Format == FormatBraze {
		return b.events[0]
	}
	if w.Batch == 1 && len(b.events) == 1 {
		return wrap(feed.TypeOf(&b.first), b.first.TimeMillis, b.events[0])
	}
	data := append([]byte(`{"events":[`), bytes.Join(b.events, []byte(","))...)
	return wrap(TypeBatch, at.UnixMilli(), append(data, "]}"...))
}

// wrap makes a body of data.
func wrap(kind string, millis int64, data []byte) []byte {
	quoted := feed.Quote(kind)
	out := make([]byte, 0, len(data)+len(quoted)+64)
	out = fmt.Appendf(out, `{"type":%s,"timestamp":"%s","data":`, quoted, profile.TimeText(millis))
	return append(append(out, data...), '}')
}
