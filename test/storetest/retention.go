package storetest

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

const day = 24 * time.Hour

// midnight returns when a day begins, counted from today, UTC.
func midnight(days int) time.Time {
	return time.Now().UTC().Truncate(day).AddDate(0, 0, days)
}

// at makes an event of a kind at a moment.
func at(n int, kind sluice.EventKind, when time.Time) store.StoredEvent {
	e := event(n)
	e.Kind, e.TimeMillis = kind, when.UnixMilli()
	return e
}

// makeDays makes the days of a week to come, and days for all that the store
// has; on a table that is not divided nothing.
func (f *fixture) makeDays(t *testing.T, store store.RetentionStore) {
	t.Helper()
	made, err := store.MakeEventDays(f.ctx, midnight(7).UnixMilli())
	must(t, err)
	if (made > 0) != f.Divided {
		t.Fatalf("%d days were made", made)
	}
}

func (f *fixture) drop(t *testing.T, store store.RetentionStore, ended time.Time) []string {
	t.Helper()
	dropped, err := store.DropEventDays(f.ctx, ended.UnixMilli())
	must(t, err)
	return dropped
}

// dropSome is drop of days of which some have ended. The call before may still have the
// lock of the days: a server lets go of it when it has seen that the connection is closed.
func (f *fixture) dropSome(t *testing.T, store store.RetentionStore, ended time.Time) (dropped []string) {
	t.Helper()
	f.until(t, "days are dropped", func() bool {
		must(t, patient(func() (err error) {
			dropped, err = store.DropEventDays(f.ctx, ended.UnixMilli())
			return err
		}))
		return len(dropped) > 0 || !f.Divided
	})
	return dropped
}

// patient repeats a call of a keeper that has lost patience: it waits for a lock for a second,
// and on a busy machine another has one for longer.
func patient(call func() error) (err error) {
	for limit := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		err = call()
		if err == nil || time.Now().After(limit) || !strings.Contains(err.Error(), "Lock wait timeout") && !strings.Contains(err.Error(), "lock timeout") {
			return err
		}
	}
}

// deleteEvents deletes all of a kind in a range, and returns the pieces.
func (f *fixture) deleteEvents(t *testing.T, kind sluice.EventKind, from, to time.Time) (pieces []int) {
	t.Helper()
	for at := from.UnixMilli(); at < to.UnixMilli(); {
		n, reached, err := f.store.(store.RetentionStore).DeleteEvents(f.ctx, kind, at, to.UnixMilli())
		must(t, err)
		pieces, at = append(pieces, n), reached
	}
	return pieces
}

// testEventDays: a day goes as a whole, and no other with it. An event that
// comes late for a day that has gone is stored all the same. Without partitions
// nothing goes this way.
func testEventDays(t *testing.T, f *fixture) {
	keep := f.store.(store.RetentionStore)
	f.start(t)
	// Before its day is made, an event lies where those without a day do.
	f.apply(t, store.Effect{Events: []store.StoredEvent{at(1, sluice.KindMail, midnight(2))}}, 1, 0)
	f.makeDays(t, keep)
	made, err := keep.MakeEventDays(f.ctx, midnight(7).UnixMilli())
	must(t, err)
	want(t, "days made again", made, 0)
	f.apply(t, store.Effect{Events: []store.StoredEvent{
		at(1, sluice.KindMail, midnight(2)), at(2, sluice.KindMail, time.UnixMilli(0)), at(3, sluice.KindCustom, midnight(-5)),
		at(4, sluice.KindMail, midnight(-4).Add(-time.Millisecond)), at(5, sluice.KindMail, midnight(-4)), at(6, sluice.KindMail, midnight(3000)),
	}}, 5, 1)
	ids := "SELECT event_id FROM events ORDER BY event_id"
	if dropped := f.dropSome(t, keep, midnight(-4)); (len(dropped) > 0) != f.Divided {
		t.Fatalf("dropped: %v", dropped)
	}
	if !f.Divided {
		f.wantRows(t, ids, []string{"e1"}, []string{"e2"}, []string{"e3"}, []string{"e4"}, []string{"e5"}, []string{"e6"})
		return
	}
	f.wantRows(t, ids, []string{"e1"}, []string{"e5"}, []string{"e6"})
	if again := f.drop(t, keep, midnight(-4)); len(again) > 0 {
		t.Fatalf("dropped again: %v", again)
	}
	late := store.Effect{Events: []store.StoredEvent{at(3, sluice.KindCustom, midnight(-5)), at(5, sluice.KindMail, midnight(-4))}}
	f.apply(t, late, 1, 1)
	next, ok, err := keep.NextEvent(f.ctx, 0)
	must(t, err)
	want(t, "oldest event", next, midnight(-5).UnixMilli())
	want(t, "there is one", ok, true)
	want(t, "late events deleted", f.deleteEvents(t, sluice.KindCustom, time.UnixMilli(0), midnight(-4))[0], 1)
	f.wantRows(t, ids, []string{"e1"}, []string{"e5"}, []string{"e6"})
	f.dropSome(t, keep, midnight(3)) // with it the event that lay elsewhere at first
	f.wantRows(t, ids, []string{"e6"})
}

// testDeleteEvents: pieces are bounded, and hold one kind of one range.
func testDeleteEvents(t *testing.T, f *fixture) {
	f.start(t)
	var e store.Effect
	for i := range 12_000 {
		e.Events = append(e.Events, at(i, sluice.KindCustom, midnight(-2).Add(time.Duration(i)*time.Millisecond)))
	}
	e.Events = append(e.Events, at(20_000, sluice.KindMail, midnight(-2)), at(20_001, sluice.KindCustom, midnight(-1)), at(20_002, sluice.KindCustom, midnight(-3)))
	f.apply(t, e, len(e.Events), 0)
	pieces := f.deleteEvents(t, sluice.KindCustom, midnight(-2), midnight(-1))
	if len(pieces) != 3 || pieces[0] != 5000 || pieces[1] != 5000 || pieces[2] != 2000 {
		t.Fatalf("pieces: %v", pieces)
	}
	f.wantRows(t, "SELECT event_id FROM events ORDER BY event_id", []string{"e20000"}, []string{"e20001"}, []string{"e20002"})
	_, ok, err := f.store.(store.RetentionStore).NextEvent(f.ctx, midnight(0).UnixMilli())
	must(t, err)
	want(t, "an event of today", ok, false)
}

// testForgetAddresses: opens and clicks of a range lose where somebody was, and nothing
// else; other events lose nothing.
func testForgetAddresses(t *testing.T, f *fixture) {
	f.start(t)
	var e store.Effect
	const visit = `{"send":"m.1","url":"https://a.example/?ip=1","ip":"192.0.2.1","user_agent":"x \"ip\":","n":1e400,"z":"\u0000"}`
	add := func(n int, name string, when time.Time, properties string) {
		x := at(n, sluice.KindMail, when)
		x.Name, x.Properties = name, properties
		e.Events = append(e.Events, x)
	}
	for i := range 5_100 {
		add(i+100, sluice.EventOpened, midnight(-2).Add(time.Duration(i)*time.Millisecond), visit)
	}
	add(1, sluice.EventClicked, midnight(-3), visit)
	add(2, sluice.EventDelivered, midnight(-3), visit)
	add(3, sluice.EventOpened, midnight(-3), `{"send":"m.2"}`)
	add(4, sluice.EventOpened, midnight(-1), visit)
	for i, url := range []string{"https://a.example/x?e=ann%40b.example&c=1", "https://a.example/x?c=1#ann@b.example", "https://a.example/to/ann@b.example/x?c=1", "https://me@a.example/x?c=1", "https://a.example/x?c=1"} {
		add(10+i, sluice.EventClicked, midnight(-3), `{"send":"m.1","url":"`+url+`","email":"of@others.example"}`)
	}
	// What a member is written like stays, and so does an object that has no address.
	const spaced, tidy = `{ "<b>" : 1.0, "ip":"192.0.2.1", "\u0061&":[ 1 ] }`, `{"<b>" : 1.0,"\u0061&":[ 1 ]}`
	const none = `{ "<b>" : 1.0, "url": "https://a.example/" }`
	add(20, sluice.EventOpened, midnight(-3), spaced)
	add(21, sluice.EventOpened, midnight(-3), none)
	f.apply(t, e, len(e.Events), 0)
	changed, calls := 0, 0
	for from, to := int64(0), midnight(-1).UnixMilli(); from < to; calls++ {
		n, reached, err := f.store.(store.RetentionStore).ForgetAddresses(f.ctx, from, to)
		must(t, err)
		changed, from = changed+n, reached
	}
	want(t, "events changed", changed, 5_105)
	f.wantRows(t, "SELECT event_id, properties FROM events WHERE event_id IN ('e20', 'e21') ORDER BY event_id", []string{"e20", tidy}, []string{"e21", none})
	for id, url := range map[string]string{"e10": "https://a.example/x", "e11": "https://a.example/x", "e12": "https://a.example", "e13": "https://me@a.example/x?c=1", "e14": "https://a.example/x?c=1"} {
		f.wantRows(t, "SELECT properties FROM events WHERE event_id = '"+id+"'", []string{`{"send":"m.1","url":"` + url + `","email":"of@others.example"}`})
	}
	want(t, "pieces", calls, 2)
	const bare = `{"send":"m.1","url":"https://a.example/?ip=1","n":1e400,"z":"\u0000"}`
	f.wantRows(t, "SELECT event_id, properties FROM events WHERE event_id IN ('e1', 'e2', 'e3', 'e4') ORDER BY event_id", []string{"e1", bare}, []string{"e2", visit}, []string{"e3", `{"send":"m.2"}`}, []string{"e4", visit})
	n, _, err := f.store.(store.RetentionStore).ForgetAddresses(f.ctx, 0, midnight(-1).UnixMilli())
	must(t, err)
	want(t, "changed again", n, 0)
}

// testDeleteSeries: old hours go, days stay, and the other way round.
func testDeleteSeries(t *testing.T, f *fixture) {
	keep := f.store.(store.RetentionStore)
	f.start(t)
	var e store.Effect
	for i := range 700 { // hours: more than a piece of all, many of one name
		for n := range 9 {
			e.Counts = append(e.Counts, counted(-time.Duration(i)*time.Hour, "app", "n"+strconv.Itoa(n), 1))
		}
	}
	e.Counts = append(e.Counts, counted(time.Hour, "app", "new", 1))
	f.apply(t, e, 0, 0)
	before := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	deleted, err := keep.DeleteSeries(f.ctx, false, before.UnixMilli())
	must(t, err)
	want(t, "hours deleted", deleted, 699*9)
	want(t, "hours left", f.count(t, "series_hours"), 10)
	days := f.count(t, "series_days")
	deleted, err = keep.DeleteSeries(f.ctx, true, before.UnixMilli())
	must(t, err)
	want(t, "days deleted", deleted, days-10)
	want(t, "days left", f.count(t, "series_days"), 10)
	stays := counted(-time.Hour*24*9, "", "stays", 1)
	stays.Kind = sluice.KindSystem
	goes := stays
	goes.Name = "goes"
	f.apply(t, store.Effect{Counts: []sluice.Count{stays, goes, counted(-time.Hour*24*9, "", "stays", 1)}}, 0, 0)
	deleted, err = keep.DeleteSeries(f.ctx, true, before.UnixMilli(), "stays", "other")
	must(t, err)
	want(t, "days deleted beside one that stays", deleted, 2)
	f.wantRows(t, "SELECT name, kind FROM series_days WHERE name IN ('stays', 'goes')", []string{"stays", "system"})
}

// testDeleteDeadLetters: they go with their payloads.
func testDeleteDeadLetters(t *testing.T, f *fixture) {
	keep := f.store.(store.RetentionStore)
	f.start(t)
	old, young := midnight(-10).UnixMilli(), midnight(-9).UnixMilli()
	e := store.Effect{Dead: []sluice.DeadLetter{{Reason: "young", TimeMillis: young}, {Reason: "large", TimeMillis: old, Payload: make([]byte, 2<<20)}}}
	for range 600 {
		e.Dead = append(e.Dead, sluice.DeadLetter{Reason: "old", TimeMillis: old})
	}
	f.apply(t, e, 0, 0)
	deleted := 0
	for more := true; more; {
		n, again, err := keep.DeleteDeadLetters(f.ctx, young)
		must(t, err)
		if n > 500 {
			t.Fatalf("%d at once", n)
		}
		deleted, more = deleted+n, again
	}
	want(t, "deleted", deleted, 601)
	f.wantRows(t, "SELECT reason FROM dead_letters", []string{"young"})
	want(t, "pieces of payloads", f.count(t, "dead_chunks"), 0)
}

// testDeleteSends: sends go that have ended and are old by their id and by
// their last change. Their totals stay, and say how many are gone.
func testDeleteSends(t *testing.T, f *fixture) {
	keep := f.store.(store.RetentionStore)
	f.start(t)
	var e store.Effect
	end := func(s mail.StoredSend, state mail.SendState, due int64) {
		o := anOutcome(&s, mail.SendWaiting, state, 1)
		o.TimeMillis, o.DueMillis = s.AcceptedMillis, due
		e.Sends, e.Outcomes = append(e.Sends, s), append(e.Outcomes, o)
	}
	const old = 5000
	for n := range old {
		end(aSend(n, n%3, 3), []mail.SendState{mail.SendSent, mail.SendInDoubt, mail.SendFailed}[n%3], 0)
	}
	e.Sends = append(e.Sends, aSend(20, 10, 11), aSend(21, 10, 11))
	again := anOutcome(&e.Sends[old], mail.SendWaiting, mail.SendInDoubt, 1)
	again.DueMillis = sendTime
	e.Outcomes = append(e.Outcomes, again)
	end(aSend(old, 0, 1), mail.SendSent, 0)
	late := aSend(22, 10, 11)
	end(late, mail.SendSent, 0)
	e.Outcomes[len(e.Outcomes)-1].TimeMillis = sendTime + old
	f.apply(t, e, old+4, 0)
	deleted, after := 0, ""
	for {
		n, next, err := keep.DeleteSends(f.ctx, after, sendTime+old)
		must(t, err)
		if n > 2100 {
			t.Fatalf("%d at once", n)
		}
		if deleted += n; next == "" {
			break
		}
		after = next
	}
	want(t, "deleted", deleted, old)
	f.wantRows(t, "SELECT message, state FROM sends ORDER BY message", []string{messageID(20), "in_doubt"}, []string{messageID(21), "waiting"},
		[]string{messageID(22), "sent"}, []string{messageID(old), "sent"})
	f.wantRows(t, "SELECT state, SUM(count), SUM(removed) FROM send_totals WHERE class = 'transactional' GROUP BY state ORDER BY state",
		[]string{"failed", "1666", "1666"}, []string{"in_doubt", "1668", "1667"}, []string{"sent", "1669", "1667"}, []string{"waiting", "1", "0"})
	n, next, err := keep.DeleteSends(f.ctx, "", sendTime+old)
	must(t, err)
	want(t, "deleted again", n, 0)
	want(t, "next", next, "")
}

// testKeepersTogether: two keepers make and drop the same days while a store
// writes. None fails but by losing patience, and no event of a day that stays
// is lost or doubled.
func testKeepersTogether(t *testing.T, f *fixture) {
	f.makeDays(t, f.store.(store.RetentionStore))
	f.start(t)
	others := []store.RetentionStore{f.Open(t).(store.RetentionStore), f.Open(t).(store.RetentionStore)}
	done := make(chan struct{})
	var all sync.WaitGroup
	errs := make([]error, len(others))
	for i, keep := range others {
		all.Go(func() {
			for n := -31; n < 0; n++ {
				errs[i] = errors.Join(errs[i],
					patient(func() error { _, err := keep.DropEventDays(f.ctx, midnight(n).UnixMilli()); return err }),
					patient(func() error { _, err := keep.MakeEventDays(f.ctx, midnight(40+n).UnixMilli()); return err }))
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	written := 0
	for working := true; working; {
		select {
		case <-done:
			working = false // and once more
		default:
		}
		var e store.Effect
		for range 200 {
			e.Events = append(e.Events, at(written, sluice.KindMail, midnight(0).Add(time.Duration(written)*time.Millisecond)))
			written++
		}
		e.Events = append(e.Events, at(written, sluice.KindMail, midnight(-31+written/200%31)))
		written++
		effect := f.step(e)
		_, err := f.store.Apply(f.ctx, f.prepare(t, effect))
		if err != nil { // a row met a day as it was made: the caller does this
			_, err = f.store.ApplyEach(f.ctx, f.prepare(t, effect))
		}
		must(t, err)
		f.at = effect.Moves[0].To
	}
	for _, err := range errs {
		must(t, err)
	}
	kept := f.Query(t, "SELECT COUNT(*), COUNT(DISTINCT event_id) FROM events WHERE time >= "+f.timeText(midnight(0)))
	want(t, "events of today", kept[0][0], strconv.Itoa(written/201*200))
	want(t, "their ids", kept[0][1], kept[0][0])
	want(t, "dead letters", f.lastLetter(t), 0)
}

// timeText is a moment as a statement has it.
func (f *fixture) timeText(when time.Time) string {
	if f.Divided {
		return "'" + when.Format("2006-01-02 15:04:05") + "'"
	}
	return strconv.FormatInt(when.UnixMilli(), 10)
}

// testDaysWait: a keeper that meets a long reader, such as a backup, gives up
// soon, and the store goes on. When the reader has ended, the work is done.
func testDaysWait(t *testing.T, f *fixture) {
	keep := f.store.(store.RetentionStore)
	f.makeDays(t, keep)
	f.start(t)
	f.apply(t, store.Effect{Events: []store.StoredEvent{at(1, sluice.KindMail, midnight(-5)), at(2, sluice.KindMail, midnight(0))}}, 2, 0)
	snapshot, err := f.store.(store.DumpStore).Snapshot(f.ctx)
	must(t, err)
	f.until(t, "a keeper gives up under a reader", func() bool {
		dropped, err := keep.DropEventDays(f.ctx, midnight(-4).UnixMilli())
		if len(dropped) > 0 || err != nil && !f.Divided {
			t.Fatalf("dropped %v under a reader: %v", dropped, err)
		}
		return err != nil || !f.Divided // else the call before still has the lock
	})
	f.apply(t, store.Effect{Events: []store.StoredEvent{at(3, sluice.KindMail, midnight(0))}}, 1, 0)
	seen := 0
	must(t, snapshot.Events(f.ctx, store.EventFilter{}, func(*store.StoredEvent) error { seen++; return nil }))
	want(t, "events of the reader", seen, 2)
	must(t, snapshot.Close())
	f.dropSome(t, keep, midnight(-4))
	if f.Divided {
		f.wantRows(t, "SELECT event_id FROM events ORDER BY event_id", []string{"e2"}, []string{"e3"})
	}
}
