package alert

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func testMessage() *Message {
	until := begin.Add(time.Hour)
	return newMessage("h1", begin, []Notice{
		{Alert: Lag, Subject: "list:q\r\nBcc: x@example.com", Status: Firing, Since: begin, Summary: "ü is behind", Runbook: runbook(Lag)},
		{Alert: Disk, Subject: "h1", Status: Resolved, Since: begin, Until: &until, Summary: "1 % free", Runbook: runbook(Disk)},
	})
}

// What is posted is the message, signed with its time.
func TestWebhook(t *testing.T) {
	var got []byte
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		header = r.Header
	}))
	defer server.Close()
	if err := NewWebhook(server.URL, "0123456789abcdef").Send(t.Context(), testMessage()); err != nil {
		t.Fatal(err)
	}
	var m Message
	if err := json.Unmarshal(got, &m); err != nil || len(m.Alerts) != 2 || m.Alerts[0].Summary != "ü is behind" || m.Version != 1 {
		t.Errorf("%v: %s", err, got)
	}
	if s := header.Get(SignatureHeader); s != sign("0123456789abcdef", begin, got) || !strings.HasPrefix(s, "t=1769853600,v1=") || len(s) != len("t=1769853600,v1=")+64 {
		t.Errorf("signature %s", s)
	}
	// By openssl: printf '1769853600.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
	if got := sign("0123456789abcdef", begin, []byte("{}")); got != signatureByOpenSSL {
		t.Errorf("signed %s", got)
	}
	if err := NewWebhook(server.URL, "").Send(t.Context(), testMessage()); err != nil || header.Get(SignatureHeader) != "" {
		t.Errorf("without a secret: %v, %s", err, header.Get(SignatureHeader))
	}
}

// A redirect, a refusal, silence and an endless answer are all ends, and none
// shows the address.
func TestWebhookFails(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.Handle("/moved", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // else the server does not see that the caller has gone
		<-r.Context().Done()
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{"/moved": "redirects are not followed", "/refused": "500", "/silent": "deadline"} {
		within := time.Minute
		if path == "/silent" {
			within = time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := NewWebhook(server.URL+path+"?token=hunter2", "").Send(ctx, testMessage())
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if err := NewWebhook(server.URL+"/endless", "").Send(t.Context(), testMessage()); err != nil {
		t.Errorf("an endless answer: %v", err)
	}
	if elsewhere != 0 {
		t.Error("the redirect was followed")
	}
	if err := NewWebhook("http://127.0.0.1:1/x?token=hunter2", "").Send(t.Context(), testMessage()); err == nil || strings.Contains(err.Error(), "hunter2") || errors.Is(err, context.Canceled) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestCheckWebhook(t *testing.T) {
	for address, good := range map[string]bool{
		"https://example.com/x": true, "http://127.0.0.1:9/x": true, "http://[::1]/": true, "http://localhost:1": true,
		"http://example.com/": false, "http://127.0.0.1.example.com/": false, "http://10.0.0.1/": false, "ftp://127.0.0.1/": false,
		"": false, "https://": false, "https:example.com": false, "http://127.0.0.1@example.com/": false, "://": false,
	} {
		if err := CheckWebhook(address); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}

const signatureByOpenSSL = "t=1769853600,v1=a63f7db28a28bc62cffda22e9c4dba0399eddc7e0e98dca5bec9d50a617e413f"
