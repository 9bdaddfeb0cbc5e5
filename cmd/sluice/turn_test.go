package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/mail"
	"sluice/test/sink"
)

// twoRelays runs a program with a relay, and another for what that does not take;
// empty: there is none.
func twoRelays(t *testing.T, first, second config.URL) *engine.Engine {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Partitions = t.TempDir(), 2
	cfg.Database = config.URL("sqlite:" + cfg.Data + "/sluice.db")
	cfg.Sending, cfg.Domains.Check = "on", false
	relay := func(url config.URL) config.SMTPRoute {
		return config.SMTPRoute{URL: url, Plain: true, Connections: 1, Window: 4}
	}
	cfg.Routes = []config.Route{{Name: "first", SMTP: relay(first)}}
	if second != "" {
		cfg.Routes = append(cfg.Routes, config.Route{Name: "second", Backup: true, SMTP: relay(second)})
	}
	return openEngine(t, cfg)
}

// openEngine runs an engine until the test ends.
func openEngine(t *testing.T, cfg *config.Config) *engine.Engine {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	var log buffer
	e, err := engine.Open(t.Context(), engine.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the engine said:\n%s", log.String())
		}
	})
	return e
}

// aRelay starts one that acts as told; its URL.
func aRelay(t *testing.T, fault func(sink.At) sink.Act) (*sink.Sink, config.URL) {
	t.Helper()
	s, err := sink.Start(sink.Options{Fault: fault})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, config.URL("smtp://" + s.Addr())
}

// sendOne hands a marketing mail in and waits until its row is as wanted.
func sendOne(t *testing.T, e *engine.Engine, as string, holds func(*mail.SendRow) bool) mail.SendRow {
	t.Helper()
	ids, err := e.Services().Submitter.Submit(t.Context(), "", []mail.Draft{{
		Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "news@example.com", To: []string{"a@example.net"},
		Content: []byte("From: news@example.com\r\nTo: a@example.net\r\nSubject: hello\r\nMessage-ID: <one@example.com>\r\n\r\nhi\r\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []mail.SendRow
	await(t, "the mail is "+as, func() bool {
		if rows, err = e.Services().Sends.MessageSends(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 1 && holds(&rows[0])
	})
	return rows[0]
}

// carried is how many mails a route was given.
func carried(e *engine.Engine, name string) int64 {
	for _, r := range e.Stats().Routes {
		if r.Name == name {
			return r.Taken
		}
	}
	return -1
}

// onceATurn reports whether a route was asked once in each turn of a mail, which lasts a
// second, since it was handed in.
func onceATurn(e *engine.Engine, name string, since time.Time) bool {
	n := carried(e, name)
	return n >= 1 && n <= 1+int64(time.Since(since)/time.Second)
}

// TestTurnedAway: what a route turns away goes by another at once, and was no
// attempt; the route is not asked twice. Where no reply says that nothing was
// taken, it goes by no other.
func TestTurnedAway(t *testing.T) {
	busy := func(step sink.Step) func(sink.At) sink.Act {
		return func(at sink.At) sink.Act {
			if at.Step == step {
				return sink.Act{Reply: "421 4.3.2 not now"}
			}
			return sink.Act{}
		}
	}
	for name, fault := range map[string]func(sink.At) sink.Act{
		"421 at the greeting": busy(sink.OnConnect), "421 at MAIL": busy(sink.OnMail), "421 at the end": busy(sink.OnEnd), "refused": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := config.URL("smtp://127.0.0.1:1")
			if fault != nil {
				_, first = aRelay(t, fault)
			}
			relay, second := aRelay(t, nil)
			e, began := twoRelays(t, first, second), time.Now()
			row := sendOne(t, e, "sent", func(r *mail.SendRow) bool { return r.State == mail.SendSent })
			if row.Route != "second" || row.Attempts != 1 || strings.Count(row.Life, "\n") != 2 || relay.Received() != 1 {
				t.Errorf("%+v, and the second relay has %d mails", row, relay.Received())
			}
			if !onceATurn(e, "first", began) {
				t.Errorf("the first relay was asked %d times", carried(e, "first"))
			}
		})
	}
	t.Run("no other", func(t *testing.T) {
		t.Parallel()
		_, first := aRelay(t, busy(sink.OnMail))
		e := twoRelays(t, first, "")
		row := sendOne(t, e, "deferred", func(r *mail.SendRow) bool { return r.Attempts > 0 })
		if row.State != mail.SendWaiting || row.Route != "first" || row.Attempts != 1 || row.DueMillis <= row.UpdatedMillis {
			t.Errorf("%+v", row)
		}
	})
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		_, first := aRelay(t, busy(sink.OnMail))
		_, second := aRelay(t, busy(sink.OnRcpt))
		e, began := twoRelays(t, first, second), time.Now()
		row := sendOne(t, e, "deferred", func(r *mail.SendRow) bool { return r.Attempts > 0 })
		if row.State != mail.SendWaiting || row.Attempts != 1 || !onceATurn(e, "first", began) || !onceATurn(e, "second", began) {
			t.Errorf("%+v; they were asked %d and %d times", row, carried(e, "first"), carried(e, "second"))
		}
	})
	t.Run("no reply", func(t *testing.T) {
		t.Parallel()
		_, first := aRelay(t, func(at sink.At) sink.Act {
			if at.Step == sink.OnEnd {
				return sink.Act{Cut: sink.Unsaid}
			}
			return sink.Act{}
		})
		relay, second := aRelay(t, nil)
		e := twoRelays(t, first, second)
		sendOne(t, e, "in doubt", func(r *mail.SendRow) bool { return r.State == mail.SendInDoubt })
		if relay.Received() != 0 || carried(e, "second") != 0 {
			t.Error("it went by the second relay as well")
		}
	})
}
