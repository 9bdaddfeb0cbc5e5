package api

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/ingest"
	"sluice/track/hook"
)

// nowhere is a network that leads nowhere.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no route to host")
}

// SNS drops for good what is answered 401. So a message whose certificate cannot be fetched
// is answered 503, and one that cannot be SNS's 401.
func TestHookWithoutCertificateOfSNS(t *testing.T) {
	const topic = "arn:aws:sns:eu-west-1:123456789012:ses-events"
	ses, err := hook.Find("ses")
	if err != nil {
		t.Fatal(err)
	}
	receiver := hook.NewReceiver([]hook.Source{{Name: "main", Provider: ses, Topics: []string{topic}}}, hook.Options{Transport: nowhere{}})
	s := New("127.0.0.1:0", &program{intake: &ingest.Intake{}}, slog.New(slog.DiscardHandler), Options{Hooks: receiver})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	url := "http://" + s.Address()
	for host, want := range map[string]int{"sns.eu-west-1.amazonaws.com": http.StatusServiceUnavailable, "example.com": http.StatusUnauthorized} {
		message, err := json.Marshal(map[string]string{
			"Type": "Notification", "MessageId": "m1", "TopicArn": topic, "Message": "{}", "Timestamp": time.Now().UTC().Format(time.RFC3339),
			"SignatureVersion": "2", "Signature": "c2lnbmVk", "SigningCertURL": "https://" + host + "/SimpleNotificationService-0.pem",
		})
		if err != nil {
			t.Fatal(err)
		}
		got := callBraze(t, url+"/hooks/ses/main", http.MethodPost, "", string(message), "Content-Type", "application/json", "X-Amz-Sns-Message-Type", "Notification")
		if got.status != want || strings.Contains(got.body, "certificate") || strings.Contains(got.body, "written") {
			t.Errorf("with a certificate of %s: %d %s, want %d", host, got.status, got.body, want)
		}
	}
	_, _, metrics := do(t, "GET", url+"/metrics")
	for _, reason := range []string{hookUnavailable, hookUnauthentic} {
		if want := `sluice_hook_refused_total{hook="main",provider="ses",reason="` + reason + `"} 1`; !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
