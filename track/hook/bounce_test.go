package hook

import (
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// What a bounce says of its address is in its metadata: class and status, for each
// provider in its words. Hard is what package ingest takes for hard.
func TestBounceFacts(t *testing.T) {
	ses := func(kind, subtype, recipient string) string {
		return `{"notificationType":"Bounce","bounce":{"bounceType":"` + kind + `","bounceSubType":"` + subtype + `","bouncedRecipients":[{"emailAddress":"a@example.com"` + recipient + `}]}}`
	}
	mailgun := func(status string) string {
		return `{"event-data":{"event":"failed","severity":"permanent","reason":"generic","delivery-status":{` + status + `}}}`
	}
	for _, tt := range []struct{ provider, body, class, status string }{
		{"ses", ses("Permanent", "General", `,"status":"5.1.1"`), "hard", "5.1.1"},
		{"ses", ses("Permanent", "NoEmail", ""), "hard", ""},
		{"ses", ses("Permanent", "General", `,"diagnosticCode":"smtp; 550 5.7.1 refused"`), "block", "5.7.1"},
		{"ses", ses("Permanent", "General", `,"status":"4.4.7"`), "other", "4.4.7"},
		{"ses", ses("Transient", "General", ""), "other", ""}, // the answer of an absent person
		{"ses", ses("Transient", "General", `,"status":"5.1.1"`), "soft", "5.1.1"},
		{"ses", ses("Transient", "MailboxFull", ""), "other", ""},
		{"ses", ses("Undetermined", "Undetermined", ""), "soft", ""},
		{"sendgrid", `{"event":"bounce","type":"bounce","status":"5.1.1"}`, "hard", "5.1.1"},
		{"sendgrid", `{"event":"bounce","type":"bounce","reason":"552 5.2.2 full"}`, "other", "5.2.2"},
		{"sendgrid", `{"event":"bounce","type":"blocked","reason":"550 no"}`, "block", ""},
		{"sendgrid", `{"event":"bounce","type":"blocked","status":"5.1.1"}`, "soft", "5.1.1"},
		{"mailgun", mailgun(`"code":550,"enhanced-code":"5.1.1"`), "hard", "5.1.1"},
		{"mailgun", mailgun(`"message":"550 5.7.26 unauthenticated"`), "block", "5.7.26"},
		{"mailgun", mailgun(`"code":550`), "soft", ""},
		{"mailgun", `{"event-data":{"event":"failed","severity":"permanent","reason":"suppress-complaint"}}`, "other", ""},
		{"mailgun", "event=bounced&code=550&error=5.1.1+none", "hard", "5.1.1"},
		{"postmark", `{"RecordType":"Bounce","Type":"HardBounce"}`, "hard", ""},
		{"postmark", `{"RecordType":"Bounce","Type":"SoftBounce","Details":"smtp;552 5.2.2 full"}`, "other", "5.2.2"},
		{"postmark", `{"RecordType":"Bounce","Type":"SoftBounce"}`, "soft", ""},
		{"postmark", `{"RecordType":"Bounce","Type":"VirusNotification"}`, "other", ""},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce","bounce_class":"10"}}}`, "hard", ""},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce","bounce_class":30}}}`, "hard", ""},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce","bounce_class":"22","raw_reason":"552 5.2.2 full"}}}`, "other", "5.2.2"},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce","bounce_class":"51","raw_reason":"550 5.1.1 no"}}}`, "block", "5.1.1"},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce","bounce_class":"20"}}}`, "soft", ""},
		{"sparkpost", `{"msys":{"message_event":{"type":"bounce"}}}`, "soft", ""},
		{"netcore", `{"EVENT":"bounced","BOUNCE_TYPE":"HARDBOUNCE"}`, "hard", ""},
		{"netcore", `{"EVENT":"bounced","BOUNCE_TYPE":"HARDBOUNCE","RESPONSE":"smtp;550 5.7.1 no"}`, "block", "5.7.1"},
		{"netcore", `{"EVENT":"bounced","BOUNCE_TYPE":"SOFTBOUNCE"}`, "soft", ""},
		{"resend", `{"type":"email.bounced","data":{"bounce":{"type":"Permanent","subType":"General"}}}`, "hard", ""},
		{"resend", `{"type":"email.bounced","data":{"bounce":{"type":"Transient","subType":"MailboxFull"}}}`, "other", ""},
		{"brevo", `{"event":"hard_bounce","reason":"550 5.7.1 no"}`, "block", "5.7.1"},
		{"brevo", `{"event":"hard_bounce"}`, "hard", ""},
		{"brevo", `{"event":"soft_bounce"}`, "soft", ""},
		{"mailjet", `{"event":"bounce","hard_bounce":true,"error":"user unknown"}`, "hard", ""},
		{"mailjet", `{"event":"bounce","hard_bounce":true,"error":"quota exceeded"}`, "other", ""},
		{"mailjet", `{"event":"bounce","hard_bounce":true,"error":"sender blocked"}`, "block", ""},
		{"mailjet", `{"event":"bounce","hard_bounce":false,"error":"invalid domain"}`, "soft", ""},
		{"mandrill", `[{"event":"hard_bounce","msg":{"diag":"smtp;550 5.1.1 none"}}]`, "hard", "5.1.1"},
		{"mandrill", `[{"event":"soft_bounce","msg":{"bounce_description":"mailbox_full"}}]`, "other", ""},
		{"mandrill", `[{"event":"soft_bounce"}]`, "soft", ""},
		{"sendgrid", `{"event":"delivered","status":"2.0.0","type":"bounce"}`, "", ""},
	} {
		printed := metadataOf(t, tt.provider, tt.body)
		class, status := printed[keyBounceClass], printed[keyStatus]
		if tt.class == "" && class != nil || tt.class != "" && class != tt.class || tt.status == "" && status != nil || tt.status != "" && status != tt.status {
			t.Errorf("%s %s: class %v, status %v, want %q, %q", tt.provider, tt.body, class, status, tt.class, tt.status)
		}
	}
	// The provider's words are there; a sender's member of the same name does not hide a fact.
	printed := metadataOf(t, "sendgrid", `{"event":"bounce","type":"bounce","bounce_classification":"Invalid Address","bounce_class":"soft","order":7}`)
	if printed[keyBounceClass] != "hard" || printed[keyBounceType] != "bounce" || printed[keyBounceSubtype] != "Invalid Address" || printed["order"] != 7.0 {
		t.Errorf("metadata %v", printed)
	}
}

// metadataOf is the metadata of the one event of a body, as it is printed.
func metadataOf(t *testing.T, provider, body string) map[string]any {
	t.Helper()
	r := parse(t, provider, body)
	if len(r.Events) != 1 {
		t.Fatalf("%s %s: %d events", provider, body, len(r.Events))
	}
	checkEvent(t, &r.Events[0])
	text, err := json.Marshal(&r.Events[0])
	if err != nil {
		t.Fatal(err)
	}
	var printed struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(text, &printed); err != nil {
		t.Fatal(err)
	}
	return printed.Metadata
}

// A small body whose elements have many events each is refused, or needs no more memory
// than some multiples of it: recipients share what they have in common.
func TestMemoryOfManyEvents(t *testing.T) {
	const bodyBytes, mostBytes = 500 << 10, 64 << 20
	many := func(n int, sep string, one func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(sep[:min(i, len(sep))] + one(i))
		}
		return b.String()
	}
	tags := many(100, ",", func(i int) string { return `"tag` + strconv.Itoa(i) + `":["` + strings.Repeat("v", 100) + `"]` })
	address := func(i int) string { return `"a` + strconv.Itoa(i) + `@x.io"` }
	element := `"mail":{"tags":{` + tags + `},"destination":[` + many(1000, ",", address) + `]}}`
	bounce := `"notificationType":"Bounce","bounce":{"bouncedRecipients":[` + many(1000, ",", func(i int) string {
		return `{"emailAddress":` + address(i) + `,"status":"5.1.` + strconv.Itoa(i%200) + `"}`
	}) + `]},` + element
	class := func(i int) string { return `"c` + strconv.Itoa(i) + `":{}` }
	for name, one := range map[string]string{
		"ses":        `{"eventType":"Send",` + element,
		"ses ":       `{` + bounce,
		"ses  ":      `{"eventType":"` + strings.Repeat("x", bodyBytes/2) + `",` + element, // a long text, and 1,000 recipients
		"sparkpost":  `{"msys":{` + many(4000, ",", class) + `}}`,
		"sparkpost ": `{"msys":{` + many(4000, ",", class) + `},"x":"` + strings.Repeat("x", bodyBytes*4/5) + `"}`,
	} {
		body := "[" + many(max(bodyBytes/len(one), 1), ",", func(i int) string { return `{"n":` + strconv.Itoa(i) + "," + one[1:] }) + "]"
		p, err := Find(strings.TrimSpace(name))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := p.Parse(&Request{Body: []byte(body)})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > mostBytes {
			t.Errorf("%s: %d bytes of body (%d events, %v) needed %d bytes", name, len(body), len(r.Events), err, used)
		}
		if err == nil && len(r.Events) > MaxElements || err != nil && !strings.Contains(err.Error(), "the limit is 10000") {
			t.Errorf("%s: %d events, %v", name, len(r.Events), err)
		}
	}
}
