package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sluice/api"
	"sluice/config"
)

const healthLong = `
Asks the program at the listen address of the configuration whether it lives, or with
--ready whether it can do its work. Exits with 0 if so. It is for supervisors that run a
command, as containers do; others may ask /healthz and /readyz. It asks without a key:
where that hides why the program is not ready, sluice doctor says it.
`

var healthFlags = []flagSpec{
	{name: "ready", help: "ask /readyz, which also wants Redis, the database and the leases"},
}

const (
	healthTimeout  = 5 * time.Second
	maxAnswerBytes = 1 << 20
)

func runHealth(ctx context.Context, c *call) error {
	path := "/healthz"
	if c.given.has("ready") {
		path = "/readyz"
	}
	// No key goes along: while the program is down, another process of this machine may
	// have its port.
	status, answer, err := ask(ctx, "http://"+reachable(c.config.Listen)+path, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("http://%s%s answers %d: %s", reachable(c.config.Listen), path, status, safeText(answer))
	}
	c.print("%s", safeText(answer))
	return nil
}

// aliveAnswer is what the program answers at /healthz.
const aliveAnswer = `{"alive":true}`

// askReady asks the program of a configuration whether it is ready, and why it is not. The
// root key goes along only if the reasons are hidden without it, and only to what has just
// answered at /healthz as the program does: another process may have its port.
func askReady(ctx context.Context, cfg *config.Config) (status int, answer string, err error) {
	base, rootKey := "http://"+reachable(cfg.Listen), cfg.RootKey.Reveal()
	status, answer, err = ask(ctx, base+"/readyz", "")
	if err != nil || rootKey == "" || !strings.Contains(answer, api.Hidden) {
		return status, answer, err
	}
	if alive, text, err := ask(ctx, base+"/healthz", ""); err != nil || alive != http.StatusOK || text != aliveAnswer {
		return status, answer, nil
	}
	return ask(ctx, base+"/readyz", rootKey)
}

// ask asks for something, with a key if it is not empty.
func ask(ctx context.Context, url, key string) (status int, answer string, err error) {
	return askUpTo(ctx, url, key, maxAnswerBytes)
}

// askUpTo is ask for an answer of so many bytes at most.
func askUpTo(ctx context.Context, url, key string, most int64) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w; is --listen right?", url, err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	// A proxy of the environment is not meant for this, and a redirect must not get
	// the key.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		return 0, "", fmt.Errorf("ask the program: %w; does it run, and is --listen right?", err)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	return res.StatusCode, strings.TrimSpace(string(text)), nil
}

// reachable is where a program that listens at an address is reached from this
// machine: who listens everywhere listens on loopback.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
