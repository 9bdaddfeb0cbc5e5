package hook

import (
	"strings"
	"testing"
)

// What the header of a mail makes a provider say of it names the send.
func TestEchoNamesTheSend(t *testing.T) {
	const send = "0199d1a2b3c4d5e6f708192a3b4c5d6e.3"
	for provider, body := range map[string]string{
		"ses":       `{"eventType":"Open","mail":{"messageId":"m","tags":{"NAME":["VALUE"]}}}`,
		"sendgrid":  `{"event":"open","sg_message_id":"m","send":"VALUE"}`,
		"mailgun":   `{"event-data":{"event":"opened","user-variables":{"send":"VALUE"}}}`,
		"postmark":  `{"RecordType":"Open","MessageID":"m","Metadata":{"send":"VALUE"}}`,
		"sparkpost": `[{"msys":{"track_event":{"type":"open","rcpt_meta":{"send":"VALUE"}}}}]`,
		"netcore":   `[{"EVENT":"opened","TRANSID":"m","X-APIHEADER":"{\"send\":\"VALUE\"}"}]`,
		"brevo":     `{"event":"opened","message-id":"m","X-Mailin-custom":"{\"send\":\"VALUE\"}"}`,
		"mailjet":   `{"event":"open","MessageID":1,"Payload":"{\"send\":\"VALUE\"}"}`,
		"mandrill":  `[{"event":"open","_id":"m","msg":{"metadata":{"send":"VALUE"}}}]`,
	} {
		p, err := Find(provider)
		if err != nil {
			t.Fatal(err)
		}
		echo, err := p.Echo()
		if err != nil {
			t.Fatal(err)
		}
		line := echo(send)
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("%s: %q", provider, line)
		}
		if provider == "ses" {
			name, value, _ = strings.Cut(value, "=")
		} else if value = send; !strings.Contains(line, send) {
			t.Errorf("%s: %q has not the id", provider, line)
		}
		found := parse(t, provider, strings.NewReplacer("NAME", name, "VALUE", value).Replace(body))
		if len(found.Events) != 1 || found.Events[0].MessageID != send {
			t.Errorf("%s: %+v", provider, found.Events)
		}
	}
	if p, _ := Find("resend"); len(echoes) != len(Providers)-1 {
		t.Errorf("%d headers", len(echoes))
	} else if _, err := p.Echo(); err == nil {
		t.Error("resend takes a header")
	}
}

// A tag of Resend has a hyphen where the id of a send has a dot; its events bring tags in
// either form.
func TestTagOfResendNamesTheSend(t *testing.T) {
	const send = "0199d1a2b3c4d5e6f708192a3b4c5d6e.3"
	tag := strings.ReplaceAll(send, ".", "-") // what {{tag_id}} of a route `http` is
	for _, tags := range []string{`{"sluice-send":"` + tag + `"}`, `[{"name":"sluice-send","value":"` + tag + `"}]`} {
		found := parse(t, "resend", `{"type":"email.opened","data":{"email_id":"e1","tags":`+tags+`}}`)
		if len(found.Events) != 1 || found.Events[0].MessageID != send {
			t.Errorf("%s: %+v", tags, found.Events)
		}
	}
}
