package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/mail"
)

// A bounce that a list or /v1/events reports suppresses its address as one of
// our own mail does, from any key or list. A hard bounce does so at once, a
// soft one after five days. A refusal about the sender, the message or a full
// mailbox never does.
func TestStoreJudgesReportedBounces(t *testing.T) {
	const none, soft, hard = "", "soft_bounces", "hard_bounce"
	cases := []struct{ element, want string }{
		// Names and replies alone.
		{`"event":"hard_bounce"`, hard}, {`"event":"HardBounce","reply":"550 5.7.1 blocked"`, none}, {`"event":"soft bounce"`, soft}, {`"event":"bounced"`, soft},
		{`"event":"VirusNotification"`, none},
		{`"event":"bounced","reply":"5.1.1 no such user","code":550`, hard}, {`"event":"bounced","response":"550 5.1.1 no such user"`, hard},
		{`"event":"bounced","response":"550-5.1.1 no such user"`, hard}, {`"event":"bounced","response":"550 no such user"`, none}, {`"event":"bounced","code":550`, none},
		{`"event":"bounced","reason":"554 5.2.2 full"`, none}, {`"event":"bounced","reason":"450 4.2.1 try again"`, soft},
		{`"event":"bounced","reason":"553 5.1.8 bad sender"`, none}, {`"event":"bounced","reason":"5.1.1.9 is your machine"`, soft}, {`"event":"bounced","reason":"550 5.1.1.9 is your machine"`, none},
		{`"event":"bounced","bounce_type":"hard"`, hard}, {`"event":"bounced","bounce_type":"soft","reply":"5.1.1 no"`, soft}, {`"event":"opened","bounce_type":"hard"`, none},
		// SES.
		{`"event":"Bounce","bounce":{"bounceType":"Permanent","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"other@example.com","status":"5.7.1"},{"emailAddress":"ADDRESS","status":"5.1.1","diagnosticCode":"smtp; 550 5.1.1 unknown"}]}`, hard},
		{`"event":"Bounce","bounce":{"bounceType":"Permanent","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"ADDRESS","diagnosticCode":"smtp; 554 5.7.1 blocked"}]}`, none},
		{`"event":"Bounce","bounce":{"bounceType":"Permanent","bounceSubType":"OnAccountSuppressionList"}`, hard},
		{`"event":"Bounce","bounce":{"bounceType":"Transient","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"ADDRESS"}]}`, none},
		{`"event":"Bounce","bounce":{"bounceType":"Transient","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"ADDRESS","status":"4.4.7"}]}`, soft},
		{`"event":"Bounce","bounce":{"bounceType":"Transient","bounceSubType":"MailboxFull"}`, none},
		{`"event":"Bounce","bounce":{"bounceType":"Undetermined","bounceSubType":"Undetermined"}`, soft},
		// SendGrid.
		{`"event":"bounce","type":"bounce","status":"5.0.0","sg_message_id":"a.b"`, hard}, {`"event":"bounce","type":"bounce","status":"5.7.1","sg_message_id":"a.b"`, none},
		{`"event":"bounce","type":"blocked","reason":"550 refused","sg_message_id":"a.b"`, none}, {`"event":"bounce","type":"blocked","status":"5.1.1","sg_message_id":"a.b"`, soft},
		{`"event":"bounce","type":"bounce"`, soft}, // of nobody that is known
		// Mailgun.
		{`"event":"failed","severity":"permanent","reason":"generic","delivery-status":{"code":550,"message":"5.1.1 no such user"}`, hard},
		{`"event":"failed","severity":"permanent","delivery-status":{"code":550,"enhanced-code":"5.7.1"}`, none},
		{`"event":"failed","severity":"permanent","delivery-status":{"code":550}`, soft}, {`"event":"failed","severity":"permanent","reason":"suppress-complaint"`, none},
		{`"event":"failed","severity":"temporary","delivery-status":{"enhanced-code":"4.2.1"}`, none}, {`"event":"failed","reply":"5.1.1 no"`, none},
		// Postmark.
		{`"event":"Bounce","Type":"HardBounce","TypeCode":1`, hard}, {`"event":"Bounce","Type":"SoftBounce"`, soft}, {`"event":"Bounce","Type":"AutoResponder"`, none},
		// SparkPost.
		{`"event":"bounced","bounce_class":"hard"`, hard}, {`"event":"bounced","bounce_class":"soft"`, soft}, {`"event":"bounced","bounce_class":"block"`, none},
		{`"type":"bounce","bounce_class":"10"`, hard}, {`"type":"bounce","bounce_class":"30"`, hard}, {`"type":"out_of_band","bounce_class":"20"`, soft},
		{`"type":"bounce","bounce_class":"22"`, none}, {`"type":"bounce","bounce_class":"51","raw_reason":"550 5.1.1 no"`, none},
		// Netcore.
		{`"event":"bounced","BOUNCE_TYPE":"HARDBOUNCE","RESPONSE":"smtp;550 5.1.1 unknown"`, hard}, {`"event":"bounced","BOUNCE_TYPE":"SOFTBOUNCE"`, soft},
	}
	onEach(t, func(b *bed) {
		batch := sluice.NewBatch(0)
		first := time.Now().Add(-mail.SoftBounceDays * 24 * time.Hour)
		address := func(n int) string { return fmt.Sprintf("case%d@example.com", n) }
		add := func(element string, origin sluice.Origin, day int) {
			var e sluice.Event
			if err := ingest.ParseEvent(element, &ingest.EventOptions{Now: first.Add(time.Duration(day) * 24 * time.Hour).UnixMilli(), Origin: origin}, &e); err != nil {
				b.Fatal(element, err)
			}
			batch = sluice.AppendEvent(batch, &e)
		}
		for n, c := range cases {
			element := "{" + strings.ReplaceAll(c.element, "ADDRESS", address(n)) + `,"email":"` + address(n) + `"}`
			for day := range mail.SoftBounceDays {
				add(element, sluice.OriginOther, day)
			}
		}
		for day := range mail.SoftBounceDays - 1 {
			add(`{"event":"bounced","email":"four@example.com"}`, sluice.OriginOther, day)
		}
		add(`{"event":"opened","email":"last@example.com"}`, sluice.OriginOther, 0)
		e := newEngine(b, setup{})
		e.write(1, "test", batch)
		e.run()
		b.eventually("all is stored", func() bool { return len(b.query("SELECT name FROM events WHERE email = 'last@example.com'")) == 1 })
		e.stop()
		got := make(map[string]string)
		for _, row := range b.query("SELECT entry, scope, reason FROM suppressions WHERE removed = 0") {
			entry, rest, _ := strings.Cut(row, "|")
			got[entry] += rest
		}
		for n, c := range cases {
			want := c.want
			if want != "" {
				want = "all|" + want
			}
			if got[address(n)] != want {
				b.Errorf("%s: suppressed %q, want %q", c.element, got[address(n)], want)
			}
		}
		if got["four@example.com"] != "" {
			b.Errorf("after four days: %q", got["four@example.com"])
		}
	})
}
