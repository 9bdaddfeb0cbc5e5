package engine_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
)

// TestATokenOfMailgunInTwoProcesses: what one process has seen of Mailgun's signature,
// which is of no body, is good for no other body at the other one. A repeat is.
func TestATokenOfMailgunInTwoProcesses(t *testing.T) {
	const secret = "a-signing-key-of-a-test"
	redis, database := sharedServers(t)
	hooks := func(c *config.Config) {
		c.Hooks = []config.Hook{{Name: "main", Provider: "mailgun", Secret: secret, Consent: true}}
	}
	both := []*engine.Engine{open(t, redis, database, 4, hooks), open(t, redis, database, 4, hooks)}
	seconds := fmt.Sprint(time.Now().Unix())
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(seconds + "t0ken"))
	post := func(process int, event, address string) int {
		t.Helper()
		body := fmt.Sprintf(`{"signature":{"timestamp":"%s","token":"t0ken","signature":"%s"},"event-data":{"event":%q,"timestamp":%s.5,"recipient":%q}}`,
			seconds, hex.EncodeToString(m.Sum(nil)), event, seconds, address)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+both[process].Address()+"/hooks/mailgun/main", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for _, x := range []struct {
		process int
		event   string
		address string
		status  int
	}{
		{0, "delivered", "ann@example.com", 200}, {1, "complained", "victim@example.com", 401}, {1, "delivered", "ann@example.com", 200},
		{0, "complained", "victim@example.com", 401}, {0, "delivered", "ann@example.com", 200},
	} {
		if got := post(x.process, x.event, x.address); got != x.status {
			t.Errorf("process %d answers %s of %s with %d, want %d", x.process, x.event, x.address, got, x.status)
		}
	}
	await(t, "one event is counted", func() bool { return counted(t, both[0]) == 1 })
}
