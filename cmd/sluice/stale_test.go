package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/sink"
)

const staleFile = `
partitions: 2
database: %s
domains: {check: false}
suppression_age_seconds: {marketing: 1, transactional: 600}
routes: {relay: {smtp: {url: 'smtp://%s', plain: true}}}
sending: on
`

// startBehindProxy starts the program with a MariaDB, which it reaches through a proxy
// alone, and a receiver that its mail goes to.
func startBehindProxy(t *testing.T) (dir string, maria *servers.MariaDB, between *proxy.Proxy, receiver *sink.Sink, s *served) {
	t.Helper()
	dir = t.TempDir()
	var err error
	maria, err = servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(dir, "maria")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = maria.Kill() })
	if err := maria.CreateDatabase(t.Context(), "stale"); err != nil {
		t.Fatal(err)
	}
	between, err = proxy.New("tcp", maria.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = between.Close() })
	receiver = startReceiver(t)
	configure(t, dir, fmt.Sprintf(staleFile, "mysql://root@"+between.Addr()+"/stale", receiver.Addr()))
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	return dir, maria, between, receiver, s
}

// A process that is cut off from the database mails nobody who unsubscribes
// meanwhile by another process; transactional mail goes on for a while. /readyz
// says so, nothing is lost, and all others get their mail when it is back.
func TestCutOffFromTheDatabaseNobodyUnsubscribedIsMailed(t *testing.T) {
	t.Parallel()
	dir, maria, proxy, receiver, s := startBehindProxy(t)

	other, err := sqlstore.Open(t.Context(), "mysql://root@"+maria.Addr()+"/stale", sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ledger := func(state mail.SendState) (n int64) {
		t.Helper()
		totals, err := other.SendTotals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range totals {
			if of.State == state {
				n += of.Count
			}
		}
		return n
	}

	// The mail waits in its lane when the database goes away.
	mustRun(t, dir, "sending", "stop")
	await(t, "marketing mail is stopped", func() bool { return s.metric(t, "sluice_marketing_stopped") == 1 })
	s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":["ann@example.com","bob@example.com"],"class":"marketing"}`)
	await(t, "the mail is in its lanes", func() bool { return ledger(mail.SendWaiting) == 2 })
	proxy.Refuse(true)
	proxy.Cut()
	if _, err := other.Suppress(t.Context(), []mail.Suppression{{Entry: "ann@example.com", Reason: mail.SuppressUnsubscribe, Scope: mail.ScopeMarketing, TimeMillis: time.Now().UnixMilli()}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the program says that marketing mail waits", func() bool {
		_, text := s.get(t, "/readyz")
		_, metrics := s.get(t, "/metrics")
		return strings.Contains(text, "marketing mail waits until the database answers") && strings.Contains(metrics, `sluice_suppressions_stale{class="marketing"} 1`)
	})
	mustRun(t, dir, "sending", "resume")
	await(t, "marketing mail is not stopped", func() bool { return s.metric(t, "sluice_marketing_stopped") == 0 })
	s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":"cy@example.com","class":"transactional"}`)
	await(t, "transactional mail leaves", func() bool { return slices.Contains(got(receiver), "cy@example.com") })

	proxy.Refuse(false)
	await(t, "the others get theirs", func() bool { return len(got(receiver)) >= 2 })
	await(t, "who has unsubscribed is left out", func() bool { return ledger(mail.SendSuppressed) == 1 })
	if all := got(receiver); slices.Contains(all, "ann@example.com") {
		t.Errorf("%v got mail: one of them had unsubscribed", all)
	}
}

// A commit is under way when the database goes away, and more mail is handed in
// afterwards: transactional mail still leaves, all of it, and once.
func TestMailLeavesThoughACommitWasCutOff(t *testing.T) {
	t.Parallel()
	_, maria, proxy, receiver, s := startBehindProxy(t)
	urgent := func(to string) {
		t.Helper()
		s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":"`+to+`","class":"transactional"}`)
	}
	urgent("first@example.com")
	await(t, "mail leaves", func() bool { return slices.Contains(got(receiver), "first@example.com") })

	// Somebody locks the cursors, so the next commit is under way until the cut.
	db, err := sql.Open("mysql", maria.DSN("stale"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var locking *sql.Tx
	await(t, "they are locked", func() bool { // a commit of that moment may be a deadlock
		if locking, err = db.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err = locking.ExecContext(t.Context(), "SELECT * FROM cursors FOR UPDATE"); err != nil {
			t.Logf("lock the cursors: %v", err)
			_ = locking.Rollback()
		}
		return err == nil
	})
	defer func() { _ = locking.Rollback() }()
	urgent("second@example.com")
	await(t, "a commit is under way", func() bool {
		var waiting int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%cursors%' AND time_ms > 200 AND id <> CONNECTION_ID()").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting > 0
	})
	proxy.Refuse(true)
	proxy.Cut()
	if err := locking.Rollback(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program says that it cannot store", func() bool {
		status, text := s.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "store")
	})
	urgent("third@example.com")
	await(t, "mail leaves while the database is away", func() bool { return slices.Contains(got(receiver), "third@example.com") })
	urgent("fourth@example.com")
	await(t, "more mail leaves", func() bool { return slices.Contains(got(receiver), "fourth@example.com") })

	proxy.Refuse(false)
	await(t, "all is stored", func() bool {
		var sent int
		err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM sends WHERE state = 'sent'").Scan(&sent)
		return err == nil && sent == 4
	})
	if all := got(receiver); len(all) != 4 {
		t.Errorf("%v got mail, want 4, each once", all)
	}
}
