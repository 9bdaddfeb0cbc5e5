package ingest_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/ingest/spill"
	"sluice/mail"
	"sluice/user"
)

// What people chose while Redis was away is replayed once, however often its file is,
// all items of a choice in one log. What somebody has said since holds.
func TestSpilledChoices(t *testing.T) {
	onEach(t, func(b *bed) {
		e := newEngine(b, setup{})
		e.run()
		at := time.Now().UnixMilli() - 3_600_000
		email := func(name string) user.Key { return user.Key{Kind: user.KeyEmail, Name: name + "@example.com"} }
		left := func(name string) []byte {
			items := sluice.AppendEvent(nil, &sluice.Event{Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: at, ID: "left-" + name, Name: sluice.EventUnsubscribed, Email: name + "@example.com"})
			return user.AppendUpdate(items, &user.Update{Op: user.OpSubscribe, Key: email(name), TimeMillis: at, Body: "unsubscribed"})
		}
		group := func(name string, millis int64, state string) []byte {
			return user.AppendUpdate(nil, &user.Update{Op: user.OpGroup, Key: email(name), TimeMillis: millis, Name: "g", App: user.EachOfAddress, Body: state})
		}
		// Bob has subscribed again since, dan has taken the group again, gil has chosen it twice,
		// and what else they chose holds. Eve has no more than what the append of unknown fate
		// has made of her. Nobody can read fay.
		_, err := e.store.(mail.SuppressionStore).Suppress(b.Context(), []mail.Suppression{{Entry: "bob@example.com", Scope: mail.ScopeMarketing, Reason: mail.SuppressUnsubscribe, Source: "x", TimeMillis: at + 1, Removed: true}})
		b.must(err)
		e.write(email("eve").Partition(len(e.logs)), "test", append(sluice.NewBatch(0), left("eve")...))
		e.write(email("dan").Partition(len(e.logs)), "test2", append(append(sluice.NewBatch(0), group("dan", at-1, "unsubscribed")...), group("dan", at+1, "subscribed")...))
		e.write(email("gil").Partition(len(e.logs)), "test4", append(append(sluice.NewBatch(0), group("gil", at-1, "subscribed")...), group("gil", at+1, "subscribed")...))
		e.write(email("fay").Partition(len(e.logs)), "test3", append(sluice.NewBatch(0), group("fay", at-1, "subscribed")...))
		b.eventually("what was said is stored", func() bool {
			return len(b.query("SELECT entry FROM suppressions WHERE entry = 'eve@example.com'")) == 1 && len(b.query("SELECT number FROM users WHERE profile LIKE '%dan@%' OR profile LIKE '%fay@%' OR profile LIKE '%gil@%'")) == 3
		})
		b.exec("UPDATE users SET profile = '[' WHERE profile LIKE '%fay@%'", "")

		dir := filepath.Join(b.TempDir(), "spill")
		w := spill.OpenItems(dir, "4711", sluice.SystemClock{})
		for _, items := range [][]byte{left("ann"), append(left("bob"), group("bob", at, "unsubscribed")...), group("cy", at, "unsubscribed"), append(left("dan"), group("dan", at, "unsubscribed")...), group("fay", at, "unsubscribed"), group("gil", at, "unsubscribed"), left("eve")} {
			b.must(w.WriteItems(items))
		}
		if err := w.Write(sluice.Event{Name: "opened", TimeMillis: 1}); err == nil {
			b.Error("a file of items takes an event")
		}
		b.must(w.Release())
		files, err := spill.List(dir)
		b.must(err)
		whole, err := os.ReadFile(files[0].Path)
		b.must(err)
		s := &ingest.Spilled{Dir: dir, Deployment: "4711", Logs: e.logs, Said: e.store.(ingest.Said), Clock: sluice.SystemClock{}, Log: slog.New(slog.NewTextHandler(e.log, nil))}
		for _, written := range []int64{5, 1} { // a copy is replayed when all is stored
			b.must(os.WriteFile(files[0].Path, whole, 0o600))
			done, err := s.Replay(b.Context(), files[0].Path, nil)
			if err != nil || done.Written != written || done.Rejected != 0 {
				b.Errorf("%+v %v, want %d written", done, err, written)
			}
			b.eventually("it is stored", func() bool {
				return len(b.query("SELECT entry FROM suppressions WHERE entry IN ('ann@example.com', 'dan@example.com') AND removed = 0")) == 2 && len(b.query("SELECT number FROM users WHERE profile LIKE '%cy@%' OR profile LIKE '%bob@%'")) == 2
			})
		}
		e.stop()
		if got := strings.Join(b.query("SELECT email FROM events WHERE name = 'unsubscribed' ORDER BY email"), " "); got != "ann@example.com dan@example.com eve@example.com" {
			b.Errorf("events of %s", got)
		}
		if got := strings.Join(b.query("SELECT entry FROM suppressions WHERE removed = 0 ORDER BY entry"), " "); got != "ann@example.com dan@example.com eve@example.com" {
			b.Errorf("suppressed are %s", got)
		}
		for name, want := range map[string]string{"ann": `"email_subscribe":"unsubscribed"`, "cy": `"g":["unsubscribed"`, "dan": `"g":["subscribed"`, "gil": `"g":["subscribed"`, "bob": `"g":["unsubscribed"`} {
			if got := strings.Join(b.query("SELECT profile FROM users WHERE profile LIKE '%"+name+"@example.com%'"), " "); !strings.Contains(got, want) {
				b.Errorf("%s: %s", name, got)
			}
		}
	})
}
