package ingest

import (
	"slices"
	"strings"
	"testing"

	"sluice"
)

var mailWords = []string{
	sluice.EventQueued, sluice.EventSent, sluice.EventDeferred, sluice.EventDelivered, sluice.EventBounced,
	sluice.EventRejected, sluice.EventFailed, sluice.EventOpened, sluice.EventClicked, sluice.EventComplained,
	sluice.EventUnsubscribed, sluice.EventSubscribed, sluice.EventAutoresponded, sluice.EventUnknown,
}

// TestMailWord has the providers' names by provider; a + marks those that say
// more than the word.
func TestMailWord(t *testing.T) {
	for _, tt := range []struct{ provider, word, names string }{
		{"SES", "sent", "Send"},
		{"SES", "delivered", "Delivery"},
		{"SES", "deferred", "DeliveryDelay"},
		{"SES", "bounced", "Bounce"},
		{"SES", "rejected", "Reject"},
		{"SES", "failed", "Rendering Failure, RenderingFailure"},
		{"SES", "opened", "Open"},
		{"SES", "clicked", "Click"},
		{"SES", "complained", "Complaint"},
		{"SendGrid", "queued", "processed"},
		{"SendGrid", "delivered", "delivered"},
		{"SendGrid", "deferred", "deferred"},
		{"SendGrid", "bounced", "bounce"},
		{"SendGrid", "rejected", "dropped"},
		{"SendGrid", "opened", "open"},
		{"SendGrid", "clicked", "click"},
		{"SendGrid", "complained", "spamreport, spam_report"},
		{"SendGrid", "unsubscribed", "unsubscribe, +group_unsubscribe"},
		{"SendGrid", "subscribed", "+group_resubscribe"},
		{"Mailgun", "queued", "accepted"},
		{"Mailgun", "rejected", "rejected"},
		{"Mailgun", "failed", "failed"},
		{"Mailgun", "opened", "opened"},
		{"Mailgun", "clicked", "clicked"},
		{"Mailgun", "complained", "complained"},
		{"Mailgun", "unsubscribed", "unsubscribed"},
		{"Postmark", "bounced", "+HardBounce, +SoftBounce, +VirusNotification"},
		{"Postmark", "deferred", "+DnsError, +OpenRelayTest"},
		{"Postmark", "rejected", "+BadEmailAddress, +ManuallyDeactivated, +DMARCPolicy"},
		{"Postmark", "failed", "SMTPApiError, TemplateRenderingFailed"},
		{"Postmark", "complained", "SpamComplaint, SpamNotification"},
		{"Postmark", "autoresponded", "AutoResponder, +ChallengeVerification"},
		{"SparkPost", "queued", "injection"},
		{"SparkPost", "delivered", "delivery"},
		{"SparkPost", "deferred", "delay"},
		{"SparkPost", "bounced", "bounce, +out_of_band"},
		{"SparkPost", "rejected", "+policy_rejection, +generation_rejection"},
		{"SparkPost", "failed", "generation_failure"},
		{"SparkPost", "opened", "open, +amp_open, +initial_open"},
		{"SparkPost", "clicked", "click, +amp_click"},
		{"SparkPost", "complained", "spam_complaint"},
		{"SparkPost", "unsubscribed", "+list_unsubscribe, +link_unsubscribe"},
		{"Netcore", "sent", "sent"},
		{"Netcore", "bounced", "bounced"},
		{"Netcore", "complained", "abuse, spam"},
		{"Mandrill", "sent", "send"},
		{"Mandrill", "deferred", "deferral"},
		{"Mandrill", "bounced", "+hard_bounce, +soft_bounce"},
		{"Mandrill", "unsubscribed", "unsub"},
		{"anybody", "bounced", "+hardbounce, +Hard Bounce, +SOFT-BOUNCE, BOUNCED"},
		{"anybody", "opened", "OPEN, _o_p_e_n_"},
	} {
		for name := range strings.SplitSeq(tt.names, ", ") {
			name, detail := strings.CutPrefix(name, "+")
			word, detailed, ok := MailWord(name)
			if !ok || word != tt.word || detailed != detail {
				t.Errorf("%s %q: got %q, %v, %v, want %q, %v", tt.provider, name, word, detailed, ok, tt.word, detail)
			}
		}
	}
	for _, word := range mailWords {
		if got, detailed, ok := MailWord(word); got != word || detailed || !ok {
			t.Errorf("%s: got %q, %v, %v", word, got, detailed, ok)
		}
	}
}

func TestOwnNames(t *testing.T) {
	for _, name := range []string{
		"", " ", "purchase", "signup", "page_view", "email_opened", "link_clicked", "openedx", "subscription", "subscribe", "blocked",
		"invalid", "error", "failure", "request", "click.", "clíck", "click\x00", "templaterenderingfailedx", "opened opened opened opened",
		strings.Repeat("n", 10_000), strings.Repeat("_", 10_000),
	} {
		if word, _, ok := MailWord(name); ok {
			t.Errorf("%.40q is taken for %s", name, word)
		}
	}
}

func FuzzMailWord(f *testing.F) {
	for _, s := range append([]string{"", "Hard Bounce", "\xff", "\x00", strings.Repeat("n", 10_000)}, mailWords...) {
		f.Add(s)
	}
	fold := strings.NewReplacer("-", "", " ", "", "_", "")
	f.Fuzz(func(t *testing.T, name string) {
		word, detailed, ok := MailWord(name)
		if ok != slices.Contains(mailWords, word) || ok == (word == "") || detailed && !ok {
			t.Fatalf("%q: got %q, %v, %v", name, word, detailed, ok)
		}
		if again, _, same := MailWord(fold.Replace(name)); again != word || same != ok {
			t.Fatalf("%q: got %q folded, %q as it is", name, again, word)
		}
	})
}

func BenchmarkMailWord(b *testing.B) {
	for _, name := range []string{"click", "Hard Bounce", "group_unsubscribe", "completed_purchase"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				MailWord(name)
			}
		})
	}
}
