package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/ops/erasure"
	"sluice/ops/retention"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/user"
	"sluice/user/users"
)

// kept is a store with a keeper, both by one clock.
type kept struct {
	*bed
	clock  *clocktest.Clock
	store  *sqlstore.Store
	keeper *retention.Keeper
	at     uint64
}

// newKeeper returns a keeper whose clocks agree.
func newKeeper(store store.RetentionStore, clock sluice.Clock) *retention.Keeper {
	agrees := func(context.Context) (int64, error) { return clock.Now().UnixMilli(), nil }
	log := slog.New(slog.DiscardHandler)
	return &retention.Keeper{Store: store, Clock: clock, OtherClock: agrees, Log: log, Erasure: &erasure.Eraser{Store: store, Log: log}}
}

func newKept(b *bed, keep ingest.Retention) *kept {
	b.Helper()
	k := &kept{bed: b, clock: clocktest.At(time.Now().UTC().Truncate(24 * time.Hour).Add(14 * time.Hour))}
	var err error
	k.store, err = sqlstore.Open(b.Context(), b.url, sqlstore.Options{Clock: k.clock, SessionTimeout: calm.SessionTimeout})
	b.must(err)
	b.Cleanup(func() { b.must(k.store.Close()) })
	k.keeper = newKeeper(k.store, k.clock)
	k.keeper.Retention = keep
	_, err = k.store.Cursors(b.Context(), ingest.StoreRole, []int{0})
	b.must(err)
	return k
}

// put stores an event of each kind at a time before the clock's, named by kind
// and name.
func (k *kept) put(name string, ago time.Duration) {
	k.Helper()
	effect := &store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at}, To: sluice.Position{Major: k.at + 1}}}}
	for kind := sluice.KindMail; kind <= sluice.KindSystem; kind++ {
		effect.Events = append(effect.Events, store.StoredEvent{
			Event: sluice.Event{Kind: kind, ID: kind.String() + " " + name, Name: "n", TimeMillis: k.clock.Now().Add(-ago).UnixMilli()},
			Place: sluice.Place{Position: sluice.Position{Major: k.at}, Index: int(kind)},
		})
	}
	k.at++
	p, err := k.store.Prepare(effect)
	k.must(err)
	_, err = k.store.Apply(k.Context(), p)
	k.must(err)
}

func (k *kept) pass() {
	k.Helper()
	k.must(k.keeper.Pass(k.Context()))
}

// want checks which events there are.
func (k *kept) want(ids ...string) {
	k.Helper()
	rows, err := k.db.QueryContext(k.Context(), "SELECT event_id FROM events ORDER BY event_id")
	k.must(err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var id string
		k.must(rows.Scan(&id))
		got = append(got, id)
	}
	k.must(rows.Err())
	if strings.Join(got, ", ") != strings.Join(ids, ", ") {
		k.Fatalf("events: %v\nwant %v", got, ids)
	}
}

func (k *kept) partitions() string {
	k.Helper()
	var names string
	k.must(k.db.QueryRowContext(k.Context(), "SELECT GROUP_CONCAT(PARTITION_NAME ORDER BY PARTITION_ORDINAL_POSITION) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'events'").Scan(&names))
	return names
}

const aDay = 24 * time.Hour

// Events of a kind go when their day is past, and not before. The day itself
// goes when it is past the longest retention. An event that comes late goes as
// well.
func TestKeeper(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{Events: map[sluice.EventKind]int{sluice.KindMail: 10, sluice.KindCustom: 5, sluice.KindPurchase: 10, sluice.KindSystem: 10}})
		b.must(k.keeper.MakeDays(b.Context()))
		first := k.clock.Now()
		k.put("a", 5*aDay+14*time.Hour) // the first moment of a day that has five after it
		k.put("b", 5*aDay+14*time.Hour+time.Millisecond)
		k.put("c", 0)
		k.pass()
		k.want("custom a", "custom c", "mail a", "mail b", "mail c", "purchase a", "purchase b", "purchase c", "system a", "system b", "system c")
		k.clock.Move(5 * 24 * time.Hour)
		k.pass()
		k.want("custom c", "mail a", "mail c", "purchase a", "purchase c", "system a", "system c")
		k.clock.Move(24 * time.Hour)
		k.pass()
		k.want("mail c", "purchase c", "system c")
		k.put("late", 100*aDay)
		k.pass()
		k.want("mail c", "purchase c", "system c")
		if b.dialect == "mariadb" {
			names := k.partitions()
			day := func(days int) string { return "p" + first.AddDate(0, 0, days).Format("20060102") }
			if !strings.HasPrefix(names, day(-4)+",") || !strings.HasSuffix(names, day(6+7)+",later") {
				b.Errorf("after six days, of the days from %s on: %s", day(0), names)
			}
		}
	})
}

// A clock that has jumped ahead costs nothing. A row must be past its retention
// by the other clock as well, and a week of days is made, not a century.
func TestKeeperWhoseClockIsAhead(t *testing.T) {
	onEach(t, func(b *bed) {
		keep := map[sluice.EventKind]int{sluice.KindMail: 3, sluice.KindCustom: 3, sluice.KindPurchase: 3, sluice.KindSystem: 3}
		k := newKept(b, ingest.Retention{Events: keep, SeriesHours: 3, SeriesDays: 3, DeadLetters: 3})
		other := clocktest.At(k.clock.Now())
		k.keeper.OtherClock = func(context.Context) (int64, error) { return other.Now().UnixMilli(), nil }
		b.must(k.keeper.MakeDays(b.Context()))
		k.put("old", 10*aDay)
		k.put("new", 0)
		var before string
		if b.dialect == "mariadb" {
			before = k.partitions()
		}
		k.clock.Move(365 * 50 * 24 * time.Hour)
		b.must(k.keeper.MakeDays(b.Context()))
		if b.dialect == "mariadb" && k.partitions() != before {
			b.Errorf("days of other years were made: %d bytes of names", len(k.partitions()))
		}
		k.pass()
		k.want("custom new", "mail new", "purchase new", "system new")

		k.keeper.OtherClock = func(context.Context) (int64, error) { return 0, sluice.ErrFull }
		if err := k.keeper.Pass(b.Context()); err == nil {
			b.Error("it works by one clock")
		}
		k.want("custom new", "mail new", "purchase new", "system new")

		// It is the earlier of the two, whichever that is.
		k.clock.Move(-365 * 50 * 24 * time.Hour)
		k.keeper.OtherClock = func(context.Context) (int64, error) { return k.clock.Now().AddDate(50, 0, 0).UnixMilli(), nil }
		k.pass()
		k.want("custom new", "mail new", "purchase new", "system new")
	})
}

// For ever is for ever, for all days, if one kind is kept so.
func TestKeeperOfOneKindForEver(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{Events: map[sluice.EventKind]int{sluice.KindMail: 3, sluice.KindCustom: 3, sluice.KindSystem: 3}})
		k.put("old", 3000*aDay)
		k.put("new", aDay)
		k.pass()
		k.want("custom new", "mail new", "purchase new", "purchase old", "system new")
	})
}

// Of two processes one has the lease and works; when it goes, the other does.
func TestKeepersShareALease(t *testing.T) {
	b := newBed(t, "mariadb")
	k := newKept(b, ingest.Retention{Events: map[sluice.EventKind]int{sluice.KindMail: 3, sluice.KindCustom: 3, sluice.KindPurchase: 3, sluice.KindSystem: 3}})
	server := b.server()
	redis, err := flow.Dial(b.Context(), server.URL())
	b.must(err)
	b.Cleanup(redis.Close)
	for i := range 2 {
		k.put(fmt.Sprint(i), 20*aDay)
		leases := flow.NewLeases(redis, k.store, k.keeper.Log)
		leases.AddPartitions(retention.Role, redis, flow.Partitions(testPartitions)[:1])
		keeper := *k.keeper
		keeper.Leases = leases
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = leases.Run(ctx) })
		running.Go(func() { keeper.Run(ctx, ctx) })
		b.eventually("old events are gone", func() bool {
			next, ok, err := k.store.NextEvent(b.Context(), 0)
			return err == nil && !ok && next == 0
		})
		stop()
		running.Wait()
	}
}

// heldUp is a store whose looks for events last as long as their context.
type heldUp struct{ *sqlstore.Store }

func (heldUp) NextEvent(ctx context.Context, _ int64) (int64, bool, error) {
	<-ctx.Done()
	return 0, false, ctx.Err()
}

// Mail to a deleted user is stopped while a pass is under way, however long that takes.
func TestKeeperStopsMailBesideAPass(t *testing.T) {
	b := newBed(t, "sqlite")
	k := newKept(b, ingest.Retention{Events: map[sluice.EventKind]int{sluice.KindMail: 3, sluice.KindCustom: 3, sluice.KindPurchase: 3, sluice.KindSystem: 3}})
	s := aSend(1, "x")
	s.AcceptedMillis, s.User = k.clock.Now().UnixMilli(), "gone"
	p, err := k.store.Prepare(&store.Effect{Sends: []mail.StoredSend{{Send: s}}, Users: &user.Changes{Erase: []string{"gone"}},
		Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}})
	b.must(err)
	_, err = k.store.Apply(b.Context(), p)
	b.must(err)
	k.clock.Move(time.Millisecond)
	redis, err := flow.Dial(b.Context(), b.server().URL())
	b.must(err)
	b.Cleanup(redis.Close)
	keeper := newKeeper(heldUp{k.store}, k.clock)
	keeper.Retention = k.keeper.Retention
	keeper.Leases = flow.NewLeases(redis, k.store, keeper.Log)
	keeper.Leases.AddPartitions(retention.Role, redis, flow.Partitions(testPartitions)[:1])
	var stopped atomic.Int64
	keeper.Erasure.Cancel = func(_ context.Context, sends []mail.SendRow) error {
		stopped.Add(int64(len(sends)))
		return nil
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = keeper.Leases.Run(ctx) })
	running.Go(func() { keeper.Run(ctx, ctx) })
	b.Cleanup(func() { stop(); running.Wait() })
	b.eventually("the mail is stopped", func() bool { return stopped.Load() > 0 })
}

// A deleted user is erased from the events of all days. An hour later the user
// is erased once more from the events that were still in the logs, when all of
// these are stored. Then nobody knows the name.
func TestKeeperErases(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		apply := func(users *user.Changes, events ...store.StoredEvent) {
			b.Helper()
			k.at++
			p, err := k.store.Prepare(&store.Effect{Users: users, Events: events, Moves: []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at - 1}, To: sluice.Position{Major: k.at}}}})
			b.must(err)
			_, err = k.store.Apply(b.Context(), p)
			b.must(err)
		}
		n := 0
		of := func(user string, daysAgo int) store.StoredEvent {
			n++
			return store.StoredEvent{
				Event: sluice.Event{Kind: sluice.KindCustom, ID: fmt.Sprint("e", n), Name: "n", User: user, TimeMillis: k.clock.Now().AddDate(0, 0, -daysAgo).UnixMilli()},
				Place: sluice.Place{Position: sluice.Position{Major: uint64(k.clock.Now().UnixMilli())}, Index: n},
			}
		}
		left := func(want string) {
			b.Helper()
			b.must(k.keeper.Pass(b.Context()))
			if got := fmt.Sprint(b.query("SELECT user_ref FROM events WHERE user_ref IS NOT NULL ORDER BY user_ref")); got != want {
				b.Errorf("events of %s, want %s", got, want)
			}
		}
		apply(nil, of("gone", 0), of("gone", 400), of("stays", 0), of("gone too", 3))
		left("[gone gone gone too stays]")
		late := of("gone", 2) // is in the logs already
		apply(&user.Changes{Erase: []string{"gone", "gone too"}})
		k.clock.Move(time.Millisecond)
		left("[stays]")
		k.clock.Move(time.Hour)
		left("[stays]") // the name has been passed, and waits for its hour to be over
		apply(nil, late)
		left("[gone stays]")
		k.clock.Move(2 * time.Minute)
		behind := errors.New("a partition stands still")
		k.keeper.Erasure.Settled = func(context.Context) error { return behind }
		if err := k.keeper.Pass(b.Context()); !errors.Is(err, behind) || b.count("erasures") != 2 {
			b.Errorf("with events that are not stored: %v, and %d names", err, b.count("erasures"))
		}
		k.keeper.Erasure.Settled = func(context.Context) error { return nil }
		apply(nil, of("gone", 0)) // another user, with the same name now
		left("[gone stays]")
		if got := b.count("erasures"); got != 0 {
			b.Errorf("%d names are left", got)
		}
		if got := b.query("SELECT COUNT(*) FROM events"); got[0] != "6" {
			b.Errorf("%s rows, want 6", got[0])
		}
		left("[gone stays]")
	})
}

// countedPasses is a store that counts the passes over soft bounces: one of each pass.
type countedPasses struct {
	*sqlstore.Store
	n int
}

func (c *countedPasses) EraseSoftBounces(ctx context.Context, names []store.Erasure) (int, error) {
	c.n++
	return c.Store.EraseSoftBounces(ctx, names)
}

// countedLooks is a store that counts the pieces of tables that have no index by time.
type countedLooks struct {
	*sqlstore.Store
	links, bounces int
	failed         error
}

func (c *countedLooks) DeleteLinks(ctx context.Context, after string, before int64) (int, string, error) {
	c.links++
	if c.failed != nil {
		return 0, "", c.failed
	}
	return c.Store.DeleteLinks(ctx, after, before)
}

func (c *countedLooks) DeleteSoftBounces(ctx context.Context, after string, before int64) (int, string, error) {
	c.bounces++
	return c.Store.DeleteSoftBounces(ctx, after, before)
}

// Tables that have no index by time are read as a whole once a day, and again if that failed.
func TestKeeperLooksThroughTablesOnceADay(t *testing.T) {
	b := newBed(t, "sqlite")
	k := newKept(b, ingest.Retention{Sends: 30})
	looks := &countedLooks{Store: k.store}
	k.keeper = newKeeper(looks, k.clock)
	k.keeper.Retention.Sends = 30
	for i, x := range []struct {
		after          time.Duration
		failed         error
		links, bounces int
	}{
		{0, errors.New("away"), 1, 1},
		{5 * time.Minute, nil, 2, 1},
		{time.Hour, nil, 2, 1},
		{22 * time.Hour, nil, 2, 1},
		{time.Hour, nil, 3, 2},
		{-48 * time.Hour, nil, 4, 3}, // a clock that was years ahead keeps nothing from being done
	} {
		k.clock.Move(x.after)
		looks.failed = x.failed
		if err := k.keeper.Pass(b.Context()); !errors.Is(err, x.failed) || looks.links != x.links || looks.bounces != x.bounces {
			b.Errorf("pass %d: %v, %d looks at links and %d at bounces, want %d and %d", i, err, looks.links, looks.bounces, x.links, x.bounces)
		}
	}
}

// A new holder of the lease passes a name that is over an hour old once, also
// while the logs are not stored. The second time it only forgets the name.
func TestKeeperErasesOldNamesInOnePass(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		name := func(person string) {
			b.Helper()
			p, err := k.store.Prepare(&store.Effect{Users: &user.Changes{Erase: []string{person}}, Moves: []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at}, To: sluice.Position{Major: k.at + 1}}}})
			b.must(err)
			_, err = k.store.Apply(b.Context(), p)
			b.must(err)
			k.at++
			k.clock.Move(2 * time.Hour)
		}
		passes := &countedPasses{Store: k.store}
		k.keeper = newKeeper(passes, k.clock)
		want := func(n, names int) {
			b.Helper()
			if got := b.count("erasures"); passes.n != n || got != names {
				b.Errorf("%d passes, want %d; %d names are left, want %d", passes.n, n, got, names)
			}
		}
		name("gone")
		k.pass()
		want(1, 0)
		name("gone too")
		behind := errors.New("a partition stands still")
		k.keeper = newKeeper(passes, k.clock)
		k.keeper.Erasure.Settled = func(context.Context) error { return behind }
		for range 2 {
			if err := k.keeper.Pass(b.Context()); !errors.Is(err, behind) {
				b.Errorf("with events that are not stored: %v", err)
			}
			want(2, 1)
		}
		k.keeper.Erasure.Settled = nil
		k.pass()
		want(3, 0)
	})
}

// The days on which a deleted user's address took no mail go. Those of others
// stay.
func TestKeeperErasesSoftBounces(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		apply := func(e store.Effect) {
			b.Helper()
			k.at++
			e.Moves = []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at - 1}, To: sluice.Position{Major: k.at}}}
			p, err := k.store.Prepare(&e)
			b.must(err)
			_, err = k.store.Apply(b.Context(), p)
			b.must(err)
		}
		now := k.clock.Now().UnixMilli()
		apply(store.Effect{SoftBounces: []mail.SoftBounce{{Entry: "gone@example.com", Source: "event", TimeMillis: now}, {Entry: "stays@example.com", Source: "event", TimeMillis: now}}})
		apply(store.Effect{Users: &user.Changes{Erase: []string{"u", store.AddressErasure("gone@example.com")}}})
		k.clock.Move(time.Millisecond)
		b.must(k.keeper.Pass(b.Context()))
		if got := fmt.Sprint(b.query("SELECT entry FROM soft_bounces")); got != "[stays@example.com]" {
			b.Errorf("soft bounces of %s are left", got)
		}
	})
}

// A deleted user is erased from the audit log in the pass that erases the rest.
func TestKeeperErasesTheAuditLog(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		now := k.clock.Now()
		e := store.AuditEntry{ID: sluice.NewUUID(now), TimeMillis: now.UnixMilli(), Account: "a", Name: "ann", Method: "DELETE", Path: "/v1/suppressions?entry=gone%40example.com"}
		b.must(k.store.AddAudit(b.Context(), e))
		p, err := k.store.Prepare(&store.Effect{Users: &user.Changes{Erase: []string{store.AddressErasure("gone@example.com")}},
			Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}})
		b.must(err)
		_, err = k.store.Apply(b.Context(), p)
		b.must(err)
		k.clock.Move(time.Millisecond)
		k.pass()
		if got := fmt.Sprint(b.query("SELECT method, path, name FROM audit_log")); got != "[DELETE|/v1/suppressions?entry=erased|ann]" {
			b.Errorf("the audit log has %s", got)
		}
	})
}

// Dead letters of a deleted user go, whatever they are. Those of others stay,
// and so do those of a user who gets the same name long after.
func TestKeeperErasesDeadLetters(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		now := k.clock.Now()
		person := user.ID{Partition: 1, Number: 7}
		key := user.Key{Kind: user.KeyExternal, Name: "gone"}
		other := user.Key{Kind: user.KeyExternal, Name: "stays"}
		item := func(u user.Update) []byte { return user.AppendUpdate(nil, &u) }
		event := func(user string) []byte { return sluice.AppendEvent(nil, &sluice.Event{Name: "n", User: user}) }
		at := sluice.Place{Position: sluice.Position{Major: uint64(now.UnixMilli())}}
		late := sluice.Place{Position: sluice.Position{Major: uint64(now.Add(2 * time.Hour).UnixMilli())}}
		var letters []sluice.DeadLetter
		put := func(reason string, form sluice.Form, place sluice.Place, payload []byte) {
			letters = append(letters, sluice.DeadLetter{Form: form, Reason: reason, Place: place, Payload: payload, TimeMillis: now.UnixMilli()})
		}
		for _, x := range []struct {
			reason string
			u      user.Update
		}{
			{"own", user.Update{Op: user.OpAttributes, Key: key, Body: "{}"}},
			{"by number", user.Update{Op: user.OpDelete, Key: user.Key{Kind: user.KeyUser, Name: person.String()}}},
			{"by alias", user.Update{Op: user.OpIdentify, Key: user.AliasKey("l", "n"), Name: "gone"}},
			{"a merge", user.Update{Op: user.OpMerge, Key: other, Name: users.MergeName(key)}},
			{"own profile", user.Update{Op: user.OpAbsorb, Key: other, Name: "x", Body: `{"external_id":"gone"}`}},
			{"large", user.Update{Op: user.OpAttributes, Key: key, Body: `{"a":"` + strings.Repeat("x", 2<<20) + `"}`}},
			{"KEPT another's", user.Update{Op: user.OpAttributes, Key: other, Body: `{"friend":"gone"}`}},
			{"KEPT an alias", user.Update{Op: user.OpAlias, Key: user.AliasKey("gone", "gone"), Body: "x"}},
		} {
			put(x.reason, sluice.FormItem, at, item(x.u))
		}
		put("event", sluice.FormItem, at, event("gone"))
		put("batch", sluice.FormBatch, at, append(append(sluice.NewBatch(0), event("stays")...), event("gone")...))
		command := func(words ...string) []byte { // as cmsgpack packs it (flow/lua/commit.lua)
			packed := []byte{0x90 | byte(len(words))}
			for _, w := range words {
				if len(w) < 32 {
					packed = append(packed, 0xa0|byte(len(w)))
				} else {
					packed = append(packed, 0xda, byte(len(w)>>8), byte(len(w)))
				}
				packed = append(packed, w...)
			}
			return packed
		}
		send := func(user string) string {
			return string(mail.AppendSend(nil, &mail.Send{User: user, To: "x@example.com", Message: strings.Repeat("0", 32)}))
		}
		put("command of a batch", sluice.FormCommand, at, command("XADD", "k", "*", "batch", string(sluice.NewBatch(0))+send("stays")+send("gone")))
		put("command of a send", sluice.FormCommand, at, command("HSET", "k", "id", send("gone")))
		put("KEPT command", sluice.FormCommand, at, command("HSET", "gone", "gone", send("stays")))
		put("KEPT broken command", sluice.FormCommand, at, []byte("\x94\xdb\xff\xff\xff\xffgone"))
		nested := sluice.DeadLetter{Form: sluice.FormCommand, Payload: command("HSET", "k", "id", send("gone"))}
		put("command in a batch", sluice.FormBatch, at, sluice.AppendDead(sluice.NewBatch(0), &nested))
		put("element", sluice.FormElement, sluice.Place{}, []byte(`{"name":"n","user":"gone"}`))
		put("KEPT element", sluice.FormElement, sluice.Place{}, []byte(`{"name":"gone","user_id":"stays"}`))
		put("KEPT no JSON", sluice.FormElement, sluice.Place{}, []byte(`gone`))
		put("KEPT no item", sluice.FormItem, at, []byte(`gone`))
		put("KEPT later", sluice.FormItem, late, event("gone"))
		p, err := k.store.Prepare(&store.Effect{Dead: letters, Users: &user.Changes{Erase: []string{"gone", person.String()}},
			Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}})
		b.must(err)
		_, err = k.store.Apply(b.Context(), p)
		b.must(err)
		k.clock.Move(time.Millisecond)
		k.pass()
		want := "[KEPT an alias KEPT another's KEPT broken command KEPT command KEPT element KEPT later KEPT no JSON KEPT no item]"
		if got := fmt.Sprint(b.query("SELECT reason FROM dead_letters ORDER BY reason")); got != want {
			b.Errorf("left are %s\nwant %s", got, want)
		}
	})
}

// The users active in a month are added up from all days there ever were. These
// days stay when the other days of the series go.
func TestKeeperKeepsTheMonth(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{SeriesHours: 3, SeriesDays: 3})
		effect := &store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at}, To: sluice.Position{Major: k.at + 1}}}}
		for _, name := range []string{users.MonthIn, users.MonthOut, users.ActiveDay} {
			effect.Counts = append(effect.Counts, sluice.Count{Kind: sluice.KindSystem, Name: name, By: 1, TimeMillis: k.clock.Now().Add(-10 * aDay).UnixMilli()})
		}
		for i, age := range []time.Duration{10 * aDay, aDay} { // counts of mail go by hour
			sent := aSend(i, "x")
			sent.Tags = fmt.Sprint(age)
			o := anOutcome(&sent, mail.SendWaiting, mail.SendSent, "", 1)
			o.TimeMillis = k.clock.Now().Add(-age).UnixMilli()
			effect.Sends, effect.Outcomes = append(effect.Sends, mail.StoredSend{Send: sent}), append(effect.Outcomes, mail.StoredOutcome{Outcome: o})
		}
		p, err := k.store.Prepare(effect)
		b.must(err)
		_, err = k.store.Apply(b.Context(), p)
		b.must(err)
		k.pass()
		if left := fmt.Sprint(b.query("SELECT campaign FROM reactions")); left != "["+aDay.String()+"]" {
			b.Errorf("counts of mail are left of %s", left)
		}
		rows, err := k.store.Series(b.Context(), store.SeriesQuery{Days: true, ToMillis: k.clock.Now().UnixMilli(), ByName: true, Limit: 9})
		b.must(err)
		if len(rows) != 2 || rows[0].Name != users.MonthIn || rows[1].Name != users.MonthOut {
			b.Errorf("of the days are left %+v", rows)
		}
	})
}

// Imports by HTTP are forgotten by the logs, and then removed, 90 days after their last
// change.
func TestImportsAreDropped(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		var forgotten []string
		fail := errors.New("redis is away")
		k.keeper.ForgetImport = func(_ context.Context, id string) error {
			forgotten = append(forgotten, id)
			return fail
		}
		for id, days := range map[string]int{"old": 91, "young": 89} {
			at := k.clock.Now().AddDate(0, 0, -days).UnixMilli()
			b.must(k.store.AddImport(b.Context(), store.FileImport{ID: id, State: store.ImportOpen, CreatedMillis: at, UpdatedMillis: at}))
		}
		left := func() int {
			all, err := k.store.FileImports(b.Context(), "", 10)
			b.must(err)
			return len(all)
		}
		if err := k.keeper.Pass(b.Context()); !errors.Is(err, fail) || left() != 2 {
			b.Errorf("while redis is away: %v, %d imports", err, left())
		}
		fail = nil
		k.pass()
		if left() != 1 || !slices.Equal(forgotten, []string{"old", "old"}) {
			b.Errorf("%d imports, forgotten %v", left(), forgotten)
		}
	})
}
