package hook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/ingest"
)

// Elements of Netcore that lack a part of what names them are events of their own, and so
// is each element that cannot be read.
func TestElementsWithoutNames(t *testing.T) {
	for _, tt := range []struct {
		body string
		want int
	}{
		{`[{"EVENT":"opened","X":1},{"EVENT":"opened","X":2},{"EVENT":"opened","TRANSID":"t","X":3},{"EVENT":"opened","EMAIL":"a@x.io"}]`, 4},
		{`[{"EVENT":"opened","TRANSID":"t","EMAIL":"a@x.io","X":1},{"EVENT":"opened","TRANSID":"t","EMAIL":"a@x.io","X":2}]`, 2},
		{`[{"EVENT":"opened","TRANSID":"t","EMAIL":"a@x.io","TIMESTAMP":1,"X":1},{"EVENT":"opened","TRANSID":"t","EMAIL":"a@x.io","TIMESTAMP":1,"X":2}]`, 1},
		{`[{"a":1},{"a":2},7,7,tru,tru]`, 6},
	} {
		r := parse(t, "netcore", tt.body)
		if len(r.Events) != tt.want {
			t.Errorf("%s: %d events, want %d", tt.body, len(r.Events), tt.want)
		}
		if again := parse(t, "netcore", tt.body); lines(t, again) != lines(t, r) {
			t.Errorf("%s: a repeat has other ids", tt.body)
		}
	}
}

// A form is read as browsers read it.
func TestFormText(t *testing.T) {
	for text, want := range map[string]string{
		"a;b=c": "a;b=c", "100%": "100%", "%zz+%41": "%zz A", "%": "%", "%4": "%4", "%C3%A9": "é", "a+b%2B": "a b+", "": "",
	} {
		e := parse(t, "mailgun", "&event=opened&=x&lone&recipient=a%40x.io&url="+text+"&token=t;1").Events[0]
		if e.Type != sluice.EventOpened || e.Recipient != "a@x.io" || e.EventID != "t;1" || e.ClickURL != want {
			t.Errorf("%q: %+v, want %q", text, e, want)
		}
	}
}

// What stands before the first boundary is not part of a form (RFC 2046, 5.1.1).
func TestPreambleOfForms(t *testing.T) {
	for _, before := range []string{"", "\r\n\r\n", "This is a message with multiple parts.\r\n", "one\n\ntwo=2&x\n"} {
		body := before + "--b1\r\nContent-Disposition: form-data; name=\"event\"\r\n\r\nopened\r\n--b1\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nt1\r\n--b1--\r\n"
		r := parse(t, "mailgun", body)
		if len(r.Events) != 1 || r.Events[0].Type != sluice.EventOpened || r.Events[0].EventID != "t1" {
			t.Errorf("%q: %+v", before, r.Events)
		}
	}
}

// Tags of Brevo are one, an array, or an array in a text; a text that happens to be other
// JSON is a tag.
func TestBrevoTags(t *testing.T) {
	for tag, want := range map[string][]string{
		`"a"`: {"a"}, `["a","b"]`: {"a", "b"}, `"[\"a\",\"b\"]"`: {"a", "b"}, `"true"`: {"true"}, `"7"`: {"7"}, `"null"`: {"null"}, `"{}"`: {"{}"}, `"[a]"`: {"[a]"}, `"[]"`: nil, `null`: nil,
	} {
		if got := parse(t, "brevo", `{"event":"opened","tag":`+tag+`}`).Events[0].Tags; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}

// Notifications of SES have the tags of our mail in a header alone.
func TestTagsInHeader(t *testing.T) {
	const send = "0193590f2a6b7c8d9e0f1a2b3c4d5e6f"
	e := parse(t, "ses", `{"notificationType":"Delivery","mail":{"messageId":"m","destination":["a@x.io"],"headers":[{"name":"x-ses-message-tags","value":"sluice-send=`+send+`-0, sluice-tag-1=welcome,sluice-tag-2=b=c, ses:x=y, team=growth, lone"}]}}`).Events[0]
	checkEvent(t, &e)
	if e.MessageID != send+".0" || !slices.Equal(e.Tags, []string{"welcome", "b=c"}) || len(e.Metadata) != 2 || !slices.Contains(e.Metadata, Member{"team", `"growth"`}) {
		t.Errorf("message %q, tags %q, metadata %s", e.MessageID, e.Tags, e.Metadata)
	}
}

// What opens and clicks without a person says so in the metadata, and as an event.
func TestBotsAreSaid(t *testing.T) {
	for _, tt := range []struct {
		provider, body string
		want           any
	}{
		{"mailgun", `{"event-data":{"event":"opened","client-info":{"bot":"gmail"}}}`, "gmail"},
		{"mailgun", `{"event-data":{"event":"opened","client-info":{"bot":""}}}`, nil},
		{"mailgun", `{"event-data":{"event":"clicked","client-info":{"bot":"generic"}}}`, "generic"},
		{"brevo", `{"event":"proxy_open"}`, "proxy_open"},
		{"brevo", `{"event":"opened"}`, nil},
		{"sendgrid", `{"event":"open","sg_machine_open":true}`, "sg_machine_open"},
		{"sendgrid", `{"event":"open","sg_machine_open":false}`, nil},
	} {
		if got := metadataOf(t, tt.provider, tt.body)[keyBot]; got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.provider, tt.body, got, tt.want)
		}
		reason := ""
		if tt.want != nil {
			reason = reasonProvider
		}
		checkMachine(t, tt.provider, tt.body, reason)
	}
}

// checkMachine wants an element that ingest takes for a machine's, for a reason; empty: a
// person's.
func checkMachine(t *testing.T, provider, body, reason string) {
	t.Helper()
	e := parse(t, provider, body).Events[0]
	var event sluice.Event
	if err := ingest.ParseEvent(string(e.AppendElement(nil, "main")), &ingest.EventOptions{Dedupe: "event_id", StableNow: true}, &event); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine bool
		Reason  string
	}
	if err := json.Unmarshal([]byte(event.Properties), &got); err != nil {
		t.Fatal(err)
	}
	if got.Machine != (reason != "") || got.Reason != reason {
		t.Errorf("%s %s: %+v, want the reason %q", provider, body, got, reason)
	}
}

// Who opens or clicks by a program's user agent is a machine, as on our own pages, also
// where the provider does not say so. An agent that is not told says nothing, of other
// events none does, and a member of the sender's is nobody's word. A proxy by which people
// see images is a person, whatever the provider calls it.
func TestMachinesByAgent(t *testing.T) {
	const google = "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)"
	for _, tt := range [...]struct{ provider, body, reason string }{
		{"sendgrid", `{"event":"open","useragent":"Mozilla/5.0"}`, "apple_privacy"},
		{"sendgrid", `{"event":"click","useragent":"python-requests/2.32"}`, "program"},
		{"sendgrid", `{"event":"open","useragent":"` + google + `"}`, ""},
		{"sendgrid", `{"event":"click","useragent":""}`, ""},
		{"sendgrid", `{"event":"open"}`, ""},
		{"sendgrid", `{"event":"open","machine":true}`, ""},
		{"sendgrid", `{"event":"unsubscribe","useragent":"Mozilla/5.0"}`, ""},
		{"mailgun", `{"event-data":{"event":"opened","client-info":{"bot":"gmail","user-agent":"` + google + `"}}}`, ""},
		{"mailgun", `{"event-data":{"event":"opened","client-info":{"bot":"apple","user-agent":"Mozilla/5.0"}}}`, "apple_privacy"},
	} {
		checkMachine(t, tt.provider, tt.body, tt.reason)
	}
}

// Events of SES come through EventBridge as well, and saved, one a line.
func TestShapesOfSES(t *testing.T) {
	const event = `{"eventType":"Open","open":{"timestamp":"2026-11-05T16:31:00Z"},"mail":{"messageId":"m","destination":["a@x.io"]}}`
	bridged := parse(t, "ses", `{"version":"0","id":"b1","detail-type":"Email Opened","source":"aws.ses","time":"2026-11-05T16:40:00Z","detail":`+event+`}`)
	if e := bridged.Events[0]; len(bridged.Events) != 1 || e.Type != sluice.EventOpened || e.EventID != "b1" || e.Recipient != "a@x.io" || e.MessageID != "m" {
		t.Errorf("EventBridge: %+v", bridged.Events)
	}
	for body, want := range map[string]int{
		event + "\n\n" + strings.Replace(event, "16:31", "16:32", 1) + "\r\n" + `{"eventType":"Op`: 3,
		strings.ReplaceAll(event, ",", ",\n"):                                                      1,
		strings.ReplaceAll(event, "{", "{\n"):                                                      1,
	} {
		r := parse(t, "ses", body)
		if len(r.Events) != want || r.Events[0].Type != sluice.EventOpened || want > 1 && r.Events[want-1].Type != sluice.EventUnknown {
			t.Errorf("%q: %+v, want %d", body, r.Events, want)
		}
	}
	note := parse(t, "ses", `{"notificationType":"AmazonSnsSubscriptionSucceeded","message":"You have successfully subscribed."}`)
	if len(note.Events) != 0 || len(note.Notes) != 1 || !strings.Contains(note.Notes[0], "successfully subscribed") {
		t.Errorf("a topic was set: %+v", note)
	}
}

// A bounce is of the recipients that it names; one that cannot be read is not all others.
func TestRecipientsOfSES(t *testing.T) {
	for list, want := range map[string]string{
		`[null,{"emailAddress":"b@x.io"}]`: "b@x.io",
		`[null]`:                           "",
		`[{"emailAddress":null},7]`:        "",
		`[]`:                               "a@x.io,b@x.io",
	} {
		var got []string
		for _, e := range parse(t, "ses", `{"notificationType":"Bounce","bounce":{"bouncedRecipients":`+list+`},"mail":{"destination":["a@x.io","b@x.io"]}}`).Events {
			got = append(got, e.Recipient)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
	for complaint, want := range map[string]string{
		`"complaintFeedbackType":"abuse"`:                                               "abuse",
		`"complaintSubType":"OnAccountSuppressionList","complaintFeedbackType":null`:    "OnAccountSuppressionList",
		`"complaintSubType":"OnAccountSuppressionList","complaintFeedbackType":"abuse"`: "abuse: OnAccountSuppressionList",
	} {
		if got := parse(t, "ses", `{"notificationType":"Complaint","complaint":{`+complaint+`}}`).Events[0].Description; got != want {
			t.Errorf("%s: %q, want %q", complaint, got, want)
		}
	}
}

// A URL is what the provider says, byte for byte; control characters are escapes.
func TestClickURL(t *testing.T) {
	for url, want := range map[string]string{
		` https://x.io/a b `: ` https://x.io/a b `, `https://x.io/\r\na\u0085\u007f`: "https://x.io/%0D%0Aa%C2%85%7F", `https://x.io/é?%0a&;`: "https://x.io/é?%0a&;",
		strings.Repeat("x", MaxURLBytes-1) + `\n`: strings.Repeat("x", MaxURLBytes-1),
	} {
		e := parse(t, "sendgrid", `{"event":"click","url":"`+url+`"}`).Events[0]
		if checkEvent(t, &e); e.ClickURL != want {
			t.Errorf("%.60q: %.60q, want %.60q", url, e.ClickURL, want)
		}
	}
}

// SendGrid's events of one message have one name of it.
func TestNamesOfSendGrid(t *testing.T) {
	for members, want := range map[string]string{
		`"sg_message_id":"14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0"`:                      "14c5d75ce93",
		`"sg_message_id":"filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0","smtp-id":"<1@x.io>"`: "filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9",
		`"sg_message_id":"filter0001.16648.5515E0B88.0","smtp-id":"<1@x.io>"`:                        "filter0001.16648.5515E0B88.0",
		`"smtp-id":"<1@x.io>"`: "<1@x.io>",
	} {
		if got := parse(t, "sendgrid", `{"event":"open",`+members+`}`).Events[0].ProviderID; got != want {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
	}
}
