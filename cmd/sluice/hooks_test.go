package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	webhook "sluice/track/hook"
)

// Secrets of the hooks of a test.
const (
	hookSecret = "a-secret-of-a-test-0123456789"
	hookSecond = "another-of-a-test-0123456789"
	svixSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// hooked is a program with a hook of each provider, called main.
type hooked struct {
	*served
	sendgrid *ecdsa.PrivateKey
	count    int // of requests, which names those of Svix
}

func startHooks(t *testing.T, more ...string) *hooked {
	t.Helper()
	h := &hooked{}
	var err error
	if h.sendgrid, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&h.sendgrid.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString(serveFile) // which ends with its hooks
	for _, name := range webhook.Names() {
		secret := hookSecret
		switch name {
		case "sendgrid":
			secret = base64.StdEncoding.EncodeToString(der)
		case "resend":
			secret = svixSecret
		}
		entry := name
		fmt.Fprintf(&b, "  %s-main: {provider: %s, secret: %q}\n", entry, name, secret)
	}
	for _, line := range more {
		b.WriteString("  " + line + "\n")
	}
	configure(t, dir, b.String())
	h.served = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	return h
}

func macOf(new func() hash.Hash, key []byte, texts ...string) []byte {
	m := hmac.New(new, key)
	for _, text := range texts {
		m.Write([]byte(text))
	}
	return m.Sum(nil)
}

// signed makes the request by which a provider posts a body.
func (h *hooked) signed(t *testing.T, provider, body string) *http.Request {
	t.Helper()
	path, head := "/hooks/"+provider+"/"+provider+"-main", http.Header{"Content-Type": {"application/json"}}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	switch provider {
	case "sendgrid":
		sum := sha256.Sum256([]byte(now + body))
		signature, err := ecdsa.SignASN1(rand.Reader, h.sendgrid, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		head.Set("X-Twilio-Email-Event-Webhook-Signature", base64.StdEncoding.EncodeToString(signature))
		head.Set("X-Twilio-Email-Event-Webhook-Timestamp", now)
	case "mailgun":
		body = signMailgun(t, body, now)
		if !strings.HasPrefix(body, "{") {
			head.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	case "resend":
		h.count++
		id := "msg_" + strconv.Itoa(h.count)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(svixSecret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		head.Set("svix-id", id)
		head.Set("svix-timestamp", now)
		head.Set("svix-signature", "v1,"+base64.StdEncoding.EncodeToString(macOf(sha256.New, key, id, ".", now, ".", body)))
	case "mandrill":
		if !strings.HasPrefix(body, "mandrill_events") {
			body = url.Values{"mandrill_events": {body}}.Encode()
		}
		fields, err := url.ParseQuery(body)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{"https://mail.example.com" + path}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			texts = append(texts, name, fields.Get(name))
		}
		head.Set("X-Mandrill-Signature", base64.StdEncoding.EncodeToString(macOf(sha1.New, []byte(hookSecret), texts...)))
		head.Set("Content-Type", "application/x-www-form-urlencoded")
	default:
		path += "?key=" + hookSecret
	}
	return h.request(t, path, body, head)
}

func (h *hooked) request(t *testing.T, path, body string, head http.Header) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if head != nil {
		r.Header = head
	}
	return r
}

// signMailgun signs a body anew: an example's signature is of another key. The token, which
// names the event, stays.
func signMailgun(t *testing.T, body, now string) string {
	t.Helper()
	if !strings.HasPrefix(body, "{") {
		fields, err := url.ParseQuery(body)
		if err != nil || len(fields["token"]) == 0 {
			t.Fatalf("%v: %.200s", err, body)
		}
		last := func(name string) *string { return &fields[name][len(fields[name])-1] } // it counts
		*last("timestamp") = now
		*last("signature") = hex.EncodeToString(macOf(sha256.New, []byte(hookSecret), now, *last("token")))
		return fields.Encode()
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	var signature struct{ Token string }
	_ = json.Unmarshal(all["signature"], &signature)
	if signature.Token == "" {
		signature.Token = rand.Text()
	}
	all["signature"], _ = json.Marshal(map[string]string{"timestamp": now, "token": signature.Token, "signature": hex.EncodeToString(macOf(sha256.New, []byte(hookSecret), now, signature.Token))})
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// send sends a request and returns the answer's status and text.
func (h *hooked) send(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	answer, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// taken sends a body as a provider does; it must be accepted, with so many events.
func (h *hooked) taken(t *testing.T, provider, body string, events int) {
	t.Helper()
	if status, text := h.send(t, h.signed(t, provider, body)); status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`{"accepted":%d}`, events)) {
		t.Fatalf("%s: %d %s, want %d events of %.300s", provider, status, text, events, body)
	}
}

// hookExample is a body of a provider and its events, as `sluice hook parse` prints them.
type hookExample struct {
	name, body string
	want       []map[string]any
}

func hookExamples(t *testing.T, provider string) (all []hookExample) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "track", "hook", "testdata", provider+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(text), "\n--- ") {
		head, rest, _ := strings.Cut(part, "\n")
		switch {
		case strings.TrimSpace(head) == "":
		case head == "want":
			for line := range strings.Lines(rest) {
				var e map[string]any
				if json.Unmarshal([]byte(line), &e) == nil { // a note is none
					all[len(all)-1].want = append(all[len(all)-1].want, e)
				}
			}
		default:
			all = append(all, hookExample{name: head, body: strings.TrimSpace(rest)})
		}
	}
	// What confirms a subscription would ask SNS: package api tests it. Mailgun and Resend sign
	// one event at a time; several are bodies that somebody has saved.
	// A form in parts is signed as one in a line is.
	return slices.DeleteFunc(all, func(e hookExample) bool {
		return strings.Contains(e.body, `"SubscriptionConfirmation"`) || e.body[0] == '-' || (provider == "mailgun" || provider == "resend") && (e.body[0] == '[' || strings.Contains(e.body, "\n{"))
	})
}

// unwrapped takes the signature off a message of SNS, as queues do that pass it on.
func unwrapped(body string) string {
	var all map[string]any
	if json.Unmarshal([]byte(body), &all) != nil || all["Signature"] == nil {
		return body
	}
	delete(all, "Signature")
	delete(all, "SigningCertURL")
	delete(all, "SignatureVersion")
	text, _ := json.Marshal(all) // what was read can be written
	return string(text)
}

// rowOf makes of what `sluice hook parse` prints what the row of it says: the time, if
// there is one, name, address, message, and the other members.
func rowOf(e map[string]any, hook string) string {
	properties := map[string]any{"hook": hook}
	for _, name := range []string{"reject_reason", "description", "mta_response", "user_agent", "click_url"} {
		if e[name] != nil {
			properties[name] = e[name]
		}
	}
	metadata := e["metadata"].(map[string]any)
	if opened := e["type"] == "opened" || e["type"] == "clicked"; opened && e["user_agent"] == "Mozilla/5.0" {
		properties["machine"], properties["reason"] = true, "apple_privacy"
	} else if opened && metadata["bot"] != nil {
		properties["machine"], properties["reason"] = true, "provider"
	}
	for _, name := range []string{"bounce_class", "status", "bounce_type", "bounce_subtype", "bot", "one_of"} {
		if v, there := metadata[name]; there && (e["type"] == "bounced" || name == "bot" || name == "one_of") {
			properties[name] = v
			delete(metadata, name)
		}
	}
	if len(metadata) > 0 {
		properties["metadata"] = metadata
	}
	if tags := e["tags"].([]any); len(tags) > 0 {
		properties["tags"] = tags
	}
	text, _ := json.Marshal(properties)
	recipient, _ := e["recipient"].(string)
	if at := strings.LastIndexByte(recipient, '@'); at >= 0 {
		recipient = recipient[:at] + strings.ToLower(recipient[at:])
	}
	message, _ := e["message_id"].(string)
	return fmt.Sprint(e["type"], " ", recipient, " ", message, " ", string(text))
}

// hookRows are the rows of a hook as rowOf writes them, in order, without what the
// provider calls a message that a tag of ours names. Times are apart, by the row.
func (h *hooked) hookRows(t *testing.T, provider string) (rows []string, times map[string]string) {
	t.Helper()
	times = make(map[string]string)
	for _, text := range h.texts(t, `SELECT json_object('name', name, 'email', email, 'message', message_ref, 'time', time, 'properties', json(properties)) FROM events WHERE properties LIKE '%"hook":"`+provider+`-main"%'`) {
		var row struct {
			Name, Email, Message string
			Time                 int64
			Properties           map[string]any
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		delete(row.Properties, "provider_id")
		properties, _ := json.Marshal(row.Properties)
		line := fmt.Sprint(row.Name, " ", row.Email, " ", row.Message, " ", string(properties))
		rows = append(rows, line)
		times[line] = time.UnixMilli(row.Time).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	slices.Sort(rows)
	return rows, times
}

// What each provider posts comes out in `events` as the tables say, once: also when all
// of it is posted again.
func TestHooksOfAllProviders(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	stored, posted := 0, 0
	for _, provider := range webhook.Names() {
		var want []string
		times, seen := make(map[string]any), make(map[string]bool)
		for _, e := range hookExamples(t, provider) {
			h.taken(t, provider, unwrapped(e.body), len(e.want))
			posted += len(e.want)
			for _, event := range e.want {
				key := fmt.Sprint(event["time"], " ", event["event_id"])
				if provider != "resend" && seen[key] {
					continue // an id that two examples have
				}
				seen[key] = true
				row := rowOf(event, provider+"-main")
				if want = append(want, row); !(provider == "mailgun" && !strings.HasPrefix(e.body, "{")) {
					times[row] = event["time"]
				}
			}
		}
		slices.Sort(want)
		stored += len(want)
		await(t, "the events of "+provider, func() bool { return h.metric(t, "sluice_stored_rows_total") == stored })
		got, at := h.hookRows(t, provider)
		if !slices.Equal(got, want) {
			t.Errorf("%s: rows\n%s\nwant\n%s", provider, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for row, time := range times {
			if time != nil && at[row] != time {
				t.Errorf("%s: time %s, want %s: %s", provider, at[row], time, row)
			}
		}
	}
	for _, provider := range webhook.Names() {
		if provider == "mailgun" || provider == "resend" {
			continue // another signature, or id, is another request
		}
		for _, e := range hookExamples(t, provider) {
			h.taken(t, provider, reversed(unwrapped(e.body)), len(e.want))
		}
	}
	await(t, "the repeats are left out", func() bool { return h.metric(t, "sluice_duplicates_total") > 0 })
	again := `[{"event":"sync","TRANSID":"x","TIMESTAMP":1761285600}]`
	h.taken(t, "netcore", again, 1)
	await(t, "all repeats have been looked at", func() bool { return h.metric(t, "sluice_stored_rows_total") > stored })
	if n := h.metric(t, "sluice_stored_rows_total"); n != stored+1 {
		t.Errorf("%d rows after all was posted again, want %d", n, stored+1)
	}
}

// reversed is an array in the other order; any other body is itself.
func reversed(body string) string {
	var all []json.RawMessage
	if json.Unmarshal([]byte(body), &all) != nil {
		return body
	}
	var texts []string
	for _, element := range all {
		texts = append([]string{string(element)}, texts...)
	}
	return "[" + strings.Join(texts, ",") + "]" // byte for byte: ids may follow from them
}
