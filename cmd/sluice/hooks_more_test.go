package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/test/servers"
	webhook "sluice/track/hook"
)

// What is not the provider's is refused without a reason and changes nothing: of another
// key, changed on its way, too old, for nobody, too large.
func TestHooksRefused(t *testing.T) {
	t.Parallel()
	h := startHooks(t, "bare: {provider: sparkpost}")
	refuse := func(r *http.Request, want int, what string) {
		t.Helper()
		status, text := h.send(t, r)
		if status != want || strings.Contains(text, "secret") || status == http.StatusUnauthorized && strings.Contains(text, "signature") || strings.Contains(text, "probe") {
			t.Errorf("%s: %d %s, want %d", what, status, text, want)
		}
	}
	const body = `[{"event":"open","email":"probe@example.com","timestamp":1761285600,"sg_event_id":"probe","token":"probe"}]`
	for _, provider := range webhook.Names() {
		path := "/hooks/" + provider + "/" + provider + "-main"
		refuse(h.request(t, path, body, nil), http.StatusUnauthorized, provider+" without anything")
		refuse(h.request(t, path+"?key=another-secret-of-a-test", body, nil), http.StatusUnauthorized, provider+" with another secret")
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, h.url+path, nil)
		if status, _ := h.send(t, r); status != http.StatusOK {
			t.Errorf("%s: HEAD %d", provider, status)
		}
	}
	changed := h.signed(t, "sendgrid", body)
	for what, change := range map[string]func(r *http.Request){
		"a byte more": func(r *http.Request) { r.Body, r.ContentLength = body2(body+" "), int64(len(body)+1) },
		"truncated":   func(r *http.Request) { r.Body, r.ContentLength = body2(body[:len(body)-2]), int64(len(body)-2) },
		"another time": func(r *http.Request) {
			const timestamp = "X-Twilio-Email-Event-Webhook-Timestamp"
			signed, _ := strconv.ParseInt(r.Header.Get(timestamp), 10, 64)
			r.Header.Set(timestamp, fmt.Sprint(signed-1))
		},
		"an older time": func(r *http.Request) {
			r.Header.Set("X-Twilio-Email-Event-Webhook-Timestamp", fmt.Sprint(time.Now().Unix()-3600))
		},
		"no signature": func(r *http.Request) { r.Header.Del("X-Twilio-Email-Event-Webhook-Signature") },
	} {
		r := changed.Clone(t.Context())
		r.Body = body2(body)
		change(r)
		refuse(r, http.StatusUnauthorized, what)
	}
	key := "?key=" + hookSecret
	refuse(h.request(t, "/hooks/sparkpost/bare"+key, body, nil), http.StatusUnauthorized, "an entry without a secret")
	refuse(h.request(t, "/hooks/postmark/none"+key, body, nil), http.StatusNotFound, "no entry")
	refuse(h.request(t, "/hooks/brevo/postmark-main"+key, body, nil), http.StatusNotFound, "an entry of another provider")
	refuse(h.request(t, "/hooks/postmark/postmark-main"+key, "hello probe", nil), http.StatusBadRequest, "no body of the provider's")
	refuse(h.request(t, "/hooks/postmark/postmark-main"+key, strings.Repeat(" ", 1<<20+1), nil), http.StatusRequestEntityTooLarge, "too large a body")
	refuse(h.request(t, "/hooks/netcore/netcore-main"+key, "["+strings.Repeat("{},", 10_000)+"{}]", nil), http.StatusRequestEntityTooLarge, "too many events")
	refuse(h.request(t, "/hooks/netcore/netcore-main"+key, body, http.Header{"Content-Encoding": {"gzip"}}), http.StatusUnsupportedMediaType, "a packed body")
	if rows := h.texts(t, "SELECT name FROM events"); len(rows) != 0 {
		t.Errorf("%d events are stored", len(rows))
	}
	_, metrics := h.get(t, "/metrics")
	for _, want := range []string{
		`sluice_hook_refused_total{hook="sendgrid-main",provider="sendgrid",reason="stale"} 1`,
		`sluice_hook_refused_total{hook="netcore-main",provider="netcore",reason="too_large"} 1`,
		`sluice_hook_requests_total{hook="brevo-main",provider="brevo"} 2`, `sluice_hook_events_total{hook="brevo-main",provider="brevo"} 0`,
		`sluice_hook_last_seconds{hook="brevo-main",provider="brevo"} 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if log := h.log.String(); !strings.Contains(log, "tells no secret that holds") || strings.Contains(log, hookSecret) {
		t.Error("the log does not say why, or shows a secret")
	}
	if r := sluiceRun(t, h.dir, "doctor"); !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "hooks.bare has no secret") {
		t.Errorf("doctor says nothing of the entry without a secret:\n%s", r.stdout)
	}
}

func body2(text string) *bodyOf { return &bodyOf{strings.NewReader(text)} }

// bodyOf is a body of a request.
type bodyOf struct{ *strings.Reader }

func (*bodyOf) Close() error { return nil }

// A file and a variable may have the secrets, and both hold.
func TestHookSecretsAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(hookSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configure(t, dir, serveFile+"  two-of: {provider: pepipost, secret_file: "+file+"}\n")
	h := &hooked{served: serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_HOOKS_TWO_OF_SECRET_PREVIOUS="+hookSecond)}
	for secret, want := range map[string]int{hookSecret: http.StatusOK, hookSecond: http.StatusOK, hookSecret + "x": http.StatusUnauthorized} {
		for path, head := range map[string]http.Header{"?key=" + secret: nil, "": {"Authorization": {"Bearer " + secret}}} {
			if status, text := h.send(t, h.request(t, "/hooks/netcore/two-of"+path, "[]", head)); status != want {
				t.Errorf("%s: %d %s, want %d", secret, status, text, want)
			}
		}
	}
}

// One element that cannot be read costs no other, and is there once, however often the
// body comes.
func TestHookElementsAreApart(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	body := `[{"event":"delivered","email":"ann@example.com","timestamp":1761285600,"sg_event_id":"e1"},{"event":"op,{"event":"teleported","email":"ann@example.com","timestamp":1761285601,"sg_event_id":"e2"}]`
	for range 3 {
		h.taken(t, "sendgrid", body, 2)
	}
	h.taken(t, "netcore", `[{"EVENT":"sent","EMAIL":"bob@example.com","TRANSID":1,"TIMESTAMP":1761285602},{"EVENT":"sent","EMA`, 2) // cut off
	h.taken(t, "netcore", `[{"EVENT":"sent","EMA,{"EVENT":"sent","EMAIL":"bob@example.com","TRANSID":1,"TIMESTAMP":1761285602}]`, 1)
	await(t, "all are stored", func() bool {
		return h.metric(t, "sluice_stored_rows_total") == 5 && h.metric(t, "sluice_duplicates_total") == 4
	})
	got := strings.Join(h.texts(t, "SELECT name || ' ' || COALESCE(json_extract(properties, '$.description'), '') FROM events ORDER BY name, time, properties"), "\n")
	if !strings.Contains(got, "delivered ") || strings.Count(got, "unknown ") != 3 || !strings.Contains(got, `unknown {"event":"op,{"event":"teleported"`) {
		t.Errorf("rows\n%s", got)
	}
}

// Bounces, complaints and unsubscriptions of providers suppress, once each; what is our
// own fault, or nobody's, does not.
func TestHookFeedback(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	now := time.Now().Unix()
	sendgrid := func(event, email string, at int64, more string) {
		t.Helper()
		h.taken(t, "sendgrid", fmt.Sprintf(`[{"event":%q,"email":%q,"timestamp":%d,"sg_event_id":"%s-%s-%d"%s}]`, event, email, at, event, email, at, more), 1)
	}
	sendgrid("bounce", "gone@example.com", now, `,"type":"bounce","status":"5.1.1","reason":"550 5.1.1 no such user"`)
	sendgrid("bounce", "blocked@example.com", now, `,"type":"bounce","status":"5.7.1","reason":"550 5.7.1 listed by spamhaus"`)
	sendgrid("bounce", "full@example.com", now, `,"type":"bounce","status":"5.2.2","reason":"552 5.2.2 over quota"`)
	sendgrid("spamreport", "bob@example.com", now, "")
	sendgrid("unsubscribe", "cy@example.com", now-7200, "")
	for range 9 { // one bounce, however often it comes
		sendgrid("bounce", "once@example.com", now, `,"type":"blocked","status":"5.2.0","reason":"550 5.2.0 busy"`)
	}
	for day := range int64(5) {
		sendgrid("bounce", "soft@example.com", now-86400*day, `,"type":"blocked","status":"5.2.0","reason":"550 5.2.0 busy"`)
	}
	h.taken(t, "ses", `{"notificationType":"Complaint","complaint":{"complainedRecipients":[{"emailAddress":"one@example.net"},{"emailAddress":"two@example.net"}],"feedbackId":"f1","timestamp":"2026-11-20T10:00:00Z"},"mail":{"messageId":"m1"}}`, 2)
	h.taken(t, "ses", `{"notificationType":"Complaint","complaint":{"complainedRecipients":[{"emailAddress":"sure@example.net"}],"feedbackId":"f2","timestamp":"2026-11-20T10:00:00Z"},"mail":{"messageId":"m1"}}`, 1)
	for address, want := range map[string][2]string{
		"gone@example.com": {"transactional", `"reason":"hard_bounce"`}, "bob@example.com": {"transactional", `"reason":"complaint"`},
		"cy@example.com": {"marketing", `"reason":"unsubscribe"`}, "soft@example.com": {"transactional", `"reason":"soft_bounces"`}, "sure@example.net": {"transactional", `"reason":"complaint"`},
	} {
		h.suppressed(t, address, want[0], want[1])
	}
	sendgrid("group_resubscribe", "cy@example.com", now, "")
	h.suppressed(t, "cy@example.com", "marketing", `"suppressed":false`)
	for _, address := range []string{"blocked@example.com", "full@example.com", "once@example.com", "one@example.net", "two@example.net"} {
		h.suppressed(t, address, "marketing", `"suppressed":false`)
	}
}

// An open that names our mail by the tag of the provider is a reaction of it.
func TestHookNamesOurMail(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	id := h.mails(t, "transactional", "ann@example.com", plainMail)
	h.became(t, id, "sent")
	h.taken(t, "postmark", `{"RecordType":"Open","MessageID":"883953f4-6105-42a2-a16a-77a8eac79483","Recipient":"ann@example.com","ReceivedAt":"2026-11-25T10:20:00Z","Metadata":{"send":"`+id+`.0"}}`, 1)
	await(t, "the send was opened", func() bool {
		return len(h.texts(t, "SELECT message FROM sends WHERE first_open IS NOT NULL AND message = '"+id+"'")) == 1
	})
	if got := h.texts(t, "SELECT message_ref || ' ' || json_extract(properties, '$.provider_id') FROM events WHERE name = 'opened'"); len(got) != 1 || got[0] != id+".0 883953f4-6105-42a2-a16a-77a8eac79483" {
		t.Errorf("rows %q", got)
	}
}

// While Redis is away the provider is told to come again; nothing is lost, or there twice.
func TestHookWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(dir, "redis"), Listen: "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Kill() })
	configure(t, dir, "redis: "+redis.URL()+serveFile)
	h := &hooked{served: serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)}
	post := func() int {
		status, _ := h.send(t, h.request(t, "/hooks/postmark/main?key=a-secret-of-the-documents-examples",
			`{"RecordType":"Delivery","MessageID":"m1","Recipient":"ann@example.com","DeliveredAt":"2026-11-25T10:20:00Z"}`, nil))
		return status
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if status := post(); status != http.StatusServiceUnavailable {
		t.Errorf("%d while Redis is away", status)
	}
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "it is taken", func() bool { return post() == http.StatusOK })
	if status := post(); status != http.StatusOK {
		t.Errorf("a repeat: %d", status)
	}
	await(t, "it is stored", func() bool { return h.metric(t, "sluice_duplicates_total") > 0 })
	if rows := h.texts(t, "SELECT event_id FROM events"); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// An event that is too old is a dead letter, and is stored when it is replayed.
func TestHookEventsOutOfBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, strings.Replace(serveFile, "past_days: 0", "past_days: 30", 1))
	h := &hooked{served: serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)}
	status, text := h.send(t, h.request(t, "/hooks/postmark/main?key=a-secret-of-the-documents-examples",
		`{"RecordType":"Delivery","MessageID":"m1","Recipient":"ann@example.com","DeliveredAt":"2020-11-25T10:20:00Z"}`, nil))
	if status != http.StatusOK || !strings.Contains(text, `{"accepted":0}`) {
		t.Fatalf("%d %s", status, text)
	}
	await(t, "the dead letter is stored", func() bool { return h.metric(t, "sluice_dead_letters_total") == 1 })
	if list := mustRun(t, h.dir, "dead", "list").stdout; !strings.Contains(list, "hook:main") || !strings.Contains(list, "time out of bounds") {
		t.Errorf("listed as\n%s", list)
	}
	mustRun(t, h.dir, "dead", "replay", "1")
	await(t, "it is replayed", func() bool {
		return len(h.texts(t, "SELECT name FROM events WHERE name = 'delivered' AND email = 'ann@example.com'")) == 1
	})
}
