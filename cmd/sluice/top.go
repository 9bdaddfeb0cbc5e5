package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"sluice/api"
	"sluice/lib/key"
	"sluice/lib/netaddr"
)

const topLong = `
Shows what a running program does, once a second: what comes in and is stored, what
waits in the lanes and how long, the state of the routes and where the time of their
mails goes. It also shows whether the ledger adds up, and which decisions an operator
has to make. Ctrl-C ends it.

    sluice top
    sluice top --url https://mail.example.com --key-file key.txt
    sluice top --once                one frame, for a file or a pipe

It asks one process, by its API: the one at the listen address of the configuration, or at
--url. Each process shows its own work; the ledger is that of all. While the server
listens on loopback and no proxy stands before it (public_url, proxies), only the ledger
needs a key. Otherwise a key needs the permissions metrics:read and ledger:read. Without
--key-file the root_key of the configuration is used, if there is one.
`

var topFlags = []flagSpec{
	{name: "url", value: "URL", help: "the program to be asked; https:// unless it is this machine"},
	{name: "key-file", value: "FILE", help: "a file with a key of the API, and nothing else"},
	{name: "once", help: "one frame, of the last second, and no more"},
}

const (
	topEvery       = time.Second
	topLedgerEvery = 10 * time.Second
	maxKeyBytes    = 1 << 10
)

// topSource is the program that is watched.
type topSource struct {
	base, key string
}

func runTop(ctx context.Context, c *call) error {
	source, err := c.topSource()
	if err != nil {
		return err
	}
	view := &topView{screen: newScreen(c.main.Stdout), base: source.base, routes: make(map[string]*rate)}
	if c.given.has("once") {
		view.terminal = false
	}
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		look, err := source.look(ctx, view.last)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C
		case err != nil && (n == 0 || c.given.has("once")):
			return err
		}
		lines := view.frame(look, err, time.Now())
		if !c.given.has("once") {
			view.draw(lines)
		} else if n > 0 { // a rate needs two looks
			view.draw(lines)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// topSource says whom to ask, and with what key.
func (c *call) topSource() (*topSource, error) {
	s := &topSource{base: "http://" + reachable(c.config.Listen), key: c.config.RootKey.Reveal()}
	if file := c.given.text("key-file"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("top: read the key: %w", err)
		}
		s.key = strings.TrimSpace(string(text))
		if len(s.key) > maxKeyBytes || strings.ContainsAny(s.key, " \r\n\t") || s.key == "" {
			return nil, fmt.Errorf("top: %s is no file with one key and nothing else; `sluice key create` makes one", file)
		}
	}
	given := c.given.text("url")
	if given == "" {
		return s, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, usagef("top: --url %q: want https://HOST, or http://127.0.0.1:PORT", given)
	}
	if u.Scheme == "http" && s.key != "" && !netaddr.IsLoopback(u.Hostname()) {
		return nil, usagef("top: --url %q: the key would go over the network in clear; want https://", given)
	}
	if c.given.text("key-file") == "" && u.Scheme == "https" {
		s.key = "" // the root key of this configuration is not for others
	}
	s.base = strings.TrimRight(given, "/")
	return s, nil
}

// topLook is what a program answered.
type topLook struct {
	status   api.Status
	profile  api.Profile
	ledger   *api.Ledger // nil: it did not tell
	noLedger string      // why
	ledgerAt time.Time
}

// look asks a program. The ledger is asked seldom: it may read a million rows.
func (s *topSource) look(ctx context.Context, last *topLook) (*topLook, error) {
	l := &topLook{}
	if err := s.get(ctx, "/v1/status", &l.status); err != nil {
		return nil, err
	}
	if err := s.get(ctx, "/v1/profile", &l.profile); err != nil {
		return nil, err
	}
	if last != nil && time.Since(last.ledgerAt) < topLedgerEvery {
		l.ledger, l.noLedger, l.ledgerAt = last.ledger, last.noLedger, last.ledgerAt
		return l, nil
	}
	l.ledgerAt = time.Now()
	var ledger api.Ledger
	err := s.get(ctx, "/v1/ledger", &ledger)
	if refused, ok := errors.AsType[*topRefused](err); ok {
		l.noLedger = refused.short()
		return l, nil
	}
	if err == nil {
		l.ledger = &ledger
	}
	return l, err
}

// topRefused is an answer that is none.
type topRefused struct {
	path   string
	status int
	text   string
}

func (e *topRefused) Error() string {
	text := fmt.Sprintf("the program answers %s with %d: %s", e.path, e.status, safeText(e.text))
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		text += fmt.Sprintf("; name a key with %s and %s by --key-file", key.MetricsRead, key.LedgerRead)
	}
	return text
}

// short says it in a few words.
func (e *topRefused) short() string {
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		return fmt.Sprintf("not shown without a key with %s", key.LedgerRead)
	}
	return fmt.Sprintf("not known: %d", e.status)
}

func (s *topSource) get(ctx context.Context, path string, into any) error {
	status, answer, err := ask(ctx, s.base+path, s.key)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &topRefused{path, status, answer}
	}
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		return fmt.Errorf("read the answer to %s: %w; is it a sluice that listens there?", path, err)
	}
	return nil
}
