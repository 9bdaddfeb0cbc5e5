package ses

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
)

// AWS's own client takes an address off the list by the same request. Its
// signer comes to the same signature, whatever the address has that is escaped.
func TestUnlist(t *testing.T) {
	for _, address := range []string{"ann@example.org", "a+b/c=d%e~f.g_h-i*'!@example.org", "\"a b\"@example.org"} {
		list, last := server(t, 200, "", "")
		tr := open(t, Settings{Endpoint: list})
		if err := tr.Unlist(t.Context(), address); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		ours := last()
		client := sesv2.New(sesv2.Options{Region: "eu-west-1", BaseEndpoint: aws.String(list), RetryMaxAttempts: 1,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
			})})
		if _, err := client.DeleteSuppressedDestination(t.Context(), &sesv2.DeleteSuppressedDestinationInput{EmailAddress: aws.String(address)}); err != nil {
			t.Fatal(err)
		}
		theirs := last()
		if ours.method != theirs.method || ours.path != theirs.path || len(ours.body) != 0 {
			t.Errorf("ours   %s %s %q\ntheirs %s %s", ours.method, ours.path, ours.body, theirs.method, theirs.path)
		}
		want, err := http.NewRequest(http.MethodDelete, list+ours.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: testKeys.AccessKey, SecretAccessKey: testKeys.SecretKey}, want, hash(nil), "ses", "eu-west-1", testNow)
		if err != nil {
			t.Fatal(err)
		}
		if ours.header.Get("Authorization") != want.Header.Get("Authorization") {
			t.Errorf("%s: the signature is\n%s, AWS's signer says\n%s", address, ours.header.Get("Authorization"), want.Header.Get("Authorization"))
		}
	}
}

// An address that is not there is as good; one beyond ASCII cannot be. What
// came too fast is asked again, and what is refused is said.
func TestUnlistAnswers(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch {
		case strings.Contains(r.URL.Path, "unknown"):
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(r.URL.Path, "refused"):
			w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(r.URL.Path, "never"), asked == 1:
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(s.Close)
	tr := open(t, Settings{Endpoint: s.URL})
	for address, want := range map[string]int{"fast@example.org": 2, "unknown@example.org": 1, "ä@example.org": 0} {
		asked = 0
		if err := tr.Unlist(t.Context(), address); err != nil || asked != want {
			t.Errorf("%s: asked %d times, %v", address, asked, err)
		}
	}
	if err := tr.Unlist(t.Context(), "refused@example.org"); err == nil || !strings.Contains(err.Error(), "403 AccessDeniedException") {
		t.Errorf("refused: %v", err)
	}
	for within := 100 * time.Millisecond; ; within *= 4 { // a busy machine may have no answer by then
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := tr.Unlist(ctx, "never@example.org")
		cancel()
		if err != nil && strings.Contains(err.Error(), "TooManyRequestsException") {
			break
		}
		if err == nil || within > time.Minute {
			t.Fatalf("never: %v", err)
		}
	}
	s.Close()
	if err := tr.Unlist(t.Context(), "away@example.org"); err == nil {
		t.Error("away: no error")
	}
}
