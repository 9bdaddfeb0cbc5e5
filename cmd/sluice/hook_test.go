package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A body that was saved is printed as events; what is no event is said beside them.
func TestHookParse(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sendgrid := write("sendgrid.json", `[{"email":"ann@example.com","timestamp":1761285600,"event":"open","sg_event_id":"e1","useragent":"a\u0007b\u202ec"},{"event":`)
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"sendgrid", sendgrid}, exitOK, `{"type":"opened","recipient":"ann@example.com","message_id":null,"event_id":"e1","time":"2025-10-24T06:00:00.000Z","reject_reason":null,"description":null,"mta_response":null,"user_agent":"ab\u202ec","click_url":null,"tags":[],"metadata":{}}
{"type":"unknown","recipient":null,"message_id":null,"event_id":"ee100f4ef2306f72cdd5b5402bba7f2b","time":null,"reject_reason":null,"description":"{\"event\":","mta_response":null,"user_agent":null,"click_url":null,"tags":[],"metadata":{}}
`, ""},
		{[]string{"ses", write("sns.json", `{"Type":"SubscriptionConfirmation","TopicArn":"arn:aws:sns:eu-west-1:123456789012:t","Token":"x"}`)}, exitOK, "", "SNS asks to confirm the subscription to the topic arn:aws:sns:eu-west-1:123456789012:t\n"},
		{[]string{"netcore", write("bounce.json", `{"EVENT":"bounced","EMAIL":"a@x.io","TRANSID":"t","TIMESTAMP":1761285600,"BOUNCE_TYPE":"HARDBOUNCE","RESPONSE":"550 5.1.1 none"}`)}, exitOK, `{"type":"bounced","recipient":"a@x.io","message_id":"t","event_id":"20348c5b19c53904abf23213066aa848","time":"2025-10-24T06:00:00.000Z","reject_reason":"bounced","description":null,"mta_response":"550 5.1.1 none","user_agent":null,"click_url":null,"tags":[],"metadata":{"bounce_class":"hard","bounce_type":"HARDBOUNCE","status":"5.1.1"}}
`, ""},
		{[]string{"mandrill", write("form.txt", "mandrill_events=%5B%5D")}, exitOK, "", ""},
		{[]string{"postmark", write("none.txt", "hello")}, exitFailed, "", "hook parse postmark: read the body: it is neither a JSON object nor an array"},
		{[]string{"sendgird", sendgrid}, exitUsage, "", "unknown provider \"sendgird\""},
		{[]string{"ses", filepath.Join(dir, "absent")}, exitFailed, "", "read body: open "},
		{[]string{"ses", sendgrid, "x"}, exitUsage, "", "want parse, a provider, and no or one file"},
		{nil, exitUsage, "", "want parse, a provider, and no or one file"},
	} {
		r := sluiceRun(t, dir, append([]string{"hook", "parse"}, tt.args...)...)
		if r.code != tt.code || r.stdout != tt.stdout || !strings.Contains(r.stderr, tt.stderr) || tt.stderr == "" && r.stderr != "" {
			t.Errorf("%v: %d\n%s\n%s", tt.args, r.code, r.stdout, r.stderr)
		}
	}
}
