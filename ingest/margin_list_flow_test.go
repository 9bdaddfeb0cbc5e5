package ingest_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// elements are elements of a list that goes to the table target.
func elements(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"id":%d}`, from+i)
	}
	return all
}

// TestADatabaseThatGoesBackIsNoGapOfLists: elements that lists to tables and
// hashes have brought since are read again, in the middle of a chunk too. No
// row is lost or doubled, and no gap is met.
func TestADatabaseThatGoesBackIsNoGapOfLists(t *testing.T) {
	for _, when := range []string{"idle", "loaded", "restarted"} {
		t.Run(when, func(t *testing.T) {
			onEach(t, func(b *bed) {
				makeTarget(b)
				s := setup{lists: []listSetup{tableList("")}, hashes: []string{b.server().URL()}}
				e := start(b, s)
				var pushed, counted atomic.Int64
				push := func(n int) {
					b.push("q", elements(int(pushed.Add(int64(n)))-n, n)...)
					b.do("HINCRBY", "app|2026-01-31|open", "7", "1")
					b.do("SADD", "buffered", "app|2026-01-31|open")
					counted.Add(1)
				}
				sum := func() int64 {
					var n int64
					b.must(b.db.QueryRowContext(b.Context(), "SELECT COALESCE(SUM(count), 0) FROM series_hours").Scan(&n))
					return n
				}
				stored := func(what string) {
					b.Helper()
					b.eventually(what, func() bool { return b.count("target") >= int(pushed.Load()) && sum() >= counted.Load() })
				}
				push(700)
				stored("the first is stored")
				putBack := b.putBack()
				for range 30 {
					push(400)
				}
				stored("the second is stored")
				switch when {
				case "restarted":
					e.stop()
					putBack()
					e = start(b, s)
				case "loaded":
					var loading sync.WaitGroup
					var over atomic.Bool
					loading.Go(func() {
						for round := 0; round < 1000 && !over.Load(); round++ {
							push(50)
						}
					})
					putBack()
					b.eventually("the list has noticed", func() bool { return e.log.has("follower=table:q") })
					over.Store(true)
					loading.Wait()
				default:
					putBack()
				}
				push(10)
				stored("all is there")
				e.stop()
				b.checkCounts("target", int(pushed.Load()), 0)
				if ids := b.query("SELECT id FROM target GROUP BY id HAVING COUNT(*) > 1"); len(ids) > 0 {
					b.Errorf("stored twice: %d, %.200v", len(ids), ids)
				}
				if sum() != counted.Load() {
					b.Errorf("the series has %d, want %d", sum(), counted.Load())
				}
				if e.log.speaksOfAGap() {
					b.Error("it speaks of a gap")
				}
			})
		})
	}
}

// heldBytes is how many bytes the elements have that are in chunks of list q.
func (b *bed) heldBytes() (bytes int) {
	b.Helper()
	for _, key := range b.do("KEYS", "*:held:*").([]any) {
		all, _ := b.do("LRANGE", key.(string), "0", "-1").([]any) // none: it has just gone
		for _, element := range all {
			bytes += len(element.(string))
		}
	}
	return bytes
}

// aheadClock is a clock that runs, ahead by so many nanoseconds.
type aheadClock struct{ by atomic.Int64 }

// Now implements sluice.Clock.
func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// TestWhatListsKeepIsBounded: applied elements of a list stay for a minute, and
// only as many as there is room for. That is true in small chunks and in a
// large one. It is no backlog.
func TestWhatListsKeepIsBounded(t *testing.T) {
	b := newBed(t, "sqlite")
	makeTarget(b)
	const room = 2 << 20 // four pages
	clock := &aheadClock{}
	s := setup{lists: []listSetup{tableList("")}, listBytes: room, clock: clock}
	e := start(b, s)
	covered := func() time.Duration { return e.stats.ListMargins()["q"] }
	some := elements(0, 1000)
	b.push("q", some...)
	b.awaitSum("target", len(some))
	b.eventually("it is stored and kept", func() bool {
		n, err := e.lists[0].Remaining(b.Context())
		return err == nil && n == 0 && b.heldBytes() == len(strings.Join(some, "")) && covered() == time.Minute
	})
	clock.by.Add(int64(time.Minute))
	b.eventually("it has gone after a minute", func() bool { return b.heldBytes() == 0 })

	pushed := len(some)
	wide := strings.Repeat(" ", 1000)
	push := func(n int) {
		all := elements(pushed, n)
		for i := range all {
			all[i] += wide
		}
		pushed += n
		b.push("q", all...)
	}
	within := func(what string, most int) {
		b.Helper()
		b.eventually(what, func() bool { n := b.heldBytes(); return n <= most && n > most/3 })
	}
	for range 40 {
		push(150)
		b.awaitSum("target", pushed)
	}
	within("of many chunks no more is kept than there is room for", room)
	before := covered()
	if before >= time.Minute {
		t.Errorf("covered are %s; want less than a minute", before)
	}
	clock.by.Add(int64(5 * time.Second))
	b.eventually("what is covered grows", func() bool { return covered() >= before+5*time.Second })
	e.stop()
	e = start(b, s)
	b.eventually("a process that goes on says what is covered", func() bool { _, ok := e.stats.ListMargins()["q"]; return ok })
	if covers := covered(); covers < before || covers >= time.Minute {
		t.Errorf("a process that goes on says that %s are covered; want %s or more, and less than a minute", covers, before)
	}
	push(8000)
	b.awaitSum("target", pushed)
	within("of a large chunk no more is kept than there is room for", room)
	e.stop()
	s.listBytes = room / 4
	e = start(b, s)
	within("a process that has less room keeps less", room/4+room/8)
	e.stop()
	b.checkCounts("target", pushed, 0)
}

// TestErasedOfAListThatIsReadAgain: an element of a list to a table names a
// deleted user. It is read again when the database goes back, is erased again
// with the user, and has left Redis after a minute.
func TestErasedOfAListThatIsReadAgain(t *testing.T) {
	b := newBed(t, "sqlite")
	makeTarget(b)
	clock := &aheadClock{}
	e := start(b, setup{lists: []listSetup{tableList("")}, noStore: true, clock: clock})
	keeper := newKeeper(e.store.(*sqlstore.Store), clock)
	_, err := e.store.Cursors(b.Context(), ingest.StoreRole, []int{0})
	b.must(err)
	b.push("q", elements(0, 1)...)
	b.awaitSum("target", 1)
	putBack := b.putBack()
	b.push("q", append(elements(1, 1), `{"id":"no number","user_id":"gone"}`)...)
	b.awaitSum("target", 3)
	erased := func() {
		b.Helper()
		p, err := e.store.Prepare(&store.Effect{Users: &user.Changes{Erase: []string{"gone"}}, Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}})
		b.must(err)
		_, err = e.store.Apply(b.Context(), p)
		b.must(err)
		clock.by.Add(int64(time.Millisecond))
		b.must(keeper.Pass(b.Context()))
		b.checkCounts("target", 2, 0)
	}
	erased()
	putBack()
	b.awaitSum("target", 3)
	b.checkCounts("target", 2, 1)
	erased() // the log has kept it as well
	clock.by.Add(int64(time.Minute))
	b.eventually("the user is not found in Redis", func() bool { return b.heldBytes() == 0 })
	e.stop()
	b.checkCounts("target", 2, 0)
}
