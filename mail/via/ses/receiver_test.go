package ses

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/test/servers"
)

// ask calls a server that stands in for SES by other ways than ours.
func ask(t *testing.T, method, address, body string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	testKeys.sign(r.Header, method, r.Host, r.URL.Path, "eu-west-1", []byte(body), testNow)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", address, answer.StatusCode, b, err)
	}
	return b
}

// A mail arrives as it was sent.
func TestReceived(t *testing.T) {
	s, err := servers.StartSESLocal(t.Context(), "../../../scripts", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	tr := open(t, Settings{Endpoint: s.URL})
	e := envelope
	e.Content = []byte("From: Ann <ann@news.example.com>\r\nTo: bob@example.org\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nHällo\r\n")
	first := deliver(t, t.Context(), tr, e)
	e.To = "eve@example.org"
	second := deliver(t, t.Context(), tr, e)
	if first.Kind != mail.ResultSent || second.Kind != mail.ResultSent || first.ID == "" || first.ID == second.ID {
		t.Fatalf("%+v\n%+v", first, second)
	}
	var got struct {
		Emails []struct {
			MessageID   string `json:"messageId"`
			Subject     string
			Body        struct{ Text string }
			Destination struct{ To []string }
		}
	}
	store := ask(t, http.MethodGet, s.URL+"/store", "")
	if err := json.Unmarshal(store, &got); err != nil || len(got.Emails) != 2 {
		t.Fatalf("%v\n%s", err, store)
	}
	for i, m := range got.Emails {
		if m.Subject != "Grüße" || strings.TrimSpace(m.Body.Text) != "Hällo" || !strings.Contains(m.MessageID, []string{first.ID, second.ID}[i]) {
			t.Errorf("%d: %+v", i, m)
		}
	}
}

// A sender that is not known is refused, which is ours to mend and costs no
// mail; one that is known is taken.
func TestRefused(t *testing.T) {
	s, err := servers.StartMoto(t.Context(), "../../../scripts", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	tr := open(t, Settings{Endpoint: s.URL})
	if r := deliver(t, t.Context(), tr, envelope); r.Kind != mail.ResultFailed || r.Blame != mail.BlameMessage || !strings.HasPrefix(r.Text, "MessageRejected ") {
		t.Errorf("%+v", r)
	}
	ask(t, http.MethodPost, s.URL+"/v2/email/identities", `{"EmailIdentity":"news.example.com"}`)
	if r := deliver(t, t.Context(), tr, envelope); r.Kind != mail.ResultSent || r.ID == "" {
		t.Errorf("%+v", r)
	}
}
