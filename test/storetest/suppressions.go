package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice/mail"
	"sluice/store"
)

// aSuppression is one that happened at a second.
func aSuppression(entry string, reason mail.SuppressReason, second int64) mail.Suppression {
	return mail.Suppression{Entry: entry, Reason: reason, Source: "cli", TimeMillis: second*1000 + 123}
}

// withoutNumbers leaves out what depends on what was written before.
func withoutNumbers(all []mail.Suppression) []mail.Suppression {
	all = slices.Clone(all)
	for i := range all {
		all[i].Number = 0
	}
	return all
}

// testSuppressions: suppressions are kept as they are, the later change wins,
// and lists and changes have what they promise.
func testSuppressions(t *testing.T, f *fixture) {
	store, ok := f.store.(mail.SuppressionStore)
	if !ok {
		t.Fatal("the store keeps no suppressions")
	}
	suppress := func(want int, changes ...mail.Suppression) {
		t.Helper()
		if n, err := store.Suppress(f.ctx, changes); err != nil || n != want {
			t.Errorf("changed %d, %v, want %d", n, err, want)
		}
	}
	of := func(entry string, want ...mail.Suppression) {
		t.Helper()
		got, err := store.SuppressionsOf(f.ctx, []string{entry, "nobody@example.com"})
		if err != nil || !slices.Equal(withoutNumbers(got), want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", entry, got, err, want)
		}
	}
	last, err := store.LastSuppression(f.ctx)
	if err != nil || last != 0 {
		t.Errorf("the last of none is %d, %v", last, err)
	}
	bounce, spam := aSuppression("a@example.com", mail.SuppressHardBounce, 1000), aSuppression("a@example.com", mail.SuppressComplaint, 1001)
	domain := aSuppression(".bad.example", mail.SuppressBadDomain, 1002)
	domain.EndMillis, domain.Scope, domain.App, domain.Source = 5_000_456, mail.ScopeMarketing, "shöp", "set:sender_bad_domains"
	suppress(3, spam, bounce, domain)
	of("a@example.com", spam, bounce)
	of(".bad.example", domain)

	// A repeat is none; an older one neither; a removal is, and what is older than
	// that changes nothing any more.
	suppress(0, spam, bounce, aSuppression("a@example.com", mail.SuppressComplaint, 999))
	removed := aSuppression("a@example.com", mail.SuppressHardBounce, 2000)
	removed.Removed = true
	suppress(1, removed, aSuppression("a@example.com", mail.SuppressHardBounce, 1500))
	of("a@example.com", spam, removed)
	suppress(0, aSuppression("a@example.com", mail.SuppressHardBounce, 1999))

	// Changes are read in their order, each row once.
	read := func(after int64, limit int) (all []mail.Suppression) {
		t.Helper()
		must(t, store.SuppressionChanges(f.ctx, after, limit, func(s *mail.Suppression) { all = append(all, *s) }))
		return all
	}
	all := read(0, 10)
	if len(all) != 3 || all[2].Key() != removed.Key() || !all[2].Removed || all[0].Number >= all[1].Number || all[1].Number >= all[2].Number {
		t.Errorf("changes are %+v", all)
	}
	if last, err = store.LastSuppression(f.ctx); err != nil || last < all[2].Number || len(read(last, 10)) != 0 {
		t.Errorf("the last has number %d, %v; changes are %+v", last, err, all)
	}
	if page := read(all[0].Number, 1); len(page) != 1 || page[0] != all[1] {
		t.Errorf("the page behind the first is %+v, want %+v", page, all[1])
	}
	testSuppressionLists(t, f, store, spam, domain)
	if n, err := store.CountSuppressions(f.ctx); err != nil || n != 5 {
		t.Errorf("%d rows, %v, want 5", n, err)
	}
	if _, err := store.Suppress(f.ctx, []mail.Suppression{{Entry: "a@example.com"}}); err == nil {
		t.Error("a suppression without reason and time was taken")
	}
}

// testSuppressionLists: what is removed is in no list.
func testSuppressionLists(t *testing.T, f *fixture, db mail.SuppressionStore, spam, domain mail.Suppression) {
	list := func(q mail.SuppressionQuery, want ...mail.Suppression) {
		t.Helper()
		q.Limit = 10
		got, err := db.Suppressions(f.ctx, q)
		if err != nil || !slices.Equal(withoutNumbers(got), want) {
			t.Errorf("%+v: got %+v, %v\nwant %+v", q, got, err, want)
		}
	}
	list(mail.SuppressionQuery{}, domain, spam) // a dot is before all letters
	list(mail.SuppressionQuery{After: domain.Key()}, spam)
	list(mail.SuppressionQuery{After: spam.Key()})
	other := aSuppression("b@example.com", mail.SuppressComplaint, 1100)
	_, err := db.Suppress(f.ctx, []mail.Suppression{other})
	must(t, err)
	complaints := mail.SuppressionQuery{Reason: mail.SuppressComplaint, FromMillis: spam.TimeMillis, ToMillis: 2e6}
	list(complaints, other, spam)
	complaints.Oldest = true
	list(complaints, spam, other)
	complaints.Skip = 1
	list(complaints, other)
	complaints.Skip, complaints.ToMillis = 0, other.TimeMillis
	list(complaints, spam)

	var held []mail.Suppression
	after := mail.SuppressionKey{}
	for {
		n, err := db.HeldSuppressions(f.ctx, after, 2, func(s *mail.Suppression) { held = append(held, *s) })
		must(t, err)
		if n < 2 {
			break
		}
		after = held[len(held)-1].Key()
	}
	want := []mail.Suppression{domain, spam, other}
	for i := range want {
		want[i].Source, want[i].TimeMillis = "", 0
	}
	if !slices.Equal(held, want) {
		t.Errorf("held are %+v\nwant %+v", held, want)
	}
	other.Removed, other.TimeMillis = true, other.TimeMillis+1
	p, err := f.store.Prepare(&store.Effect{Suppress: []mail.Suppression{other}}) // as the store follower does
	must(t, err)
	_, err = f.store.Apply(f.ctx, p)
	must(t, err)
	list(mail.SuppressionQuery{}, domain, spam)

	bounced := aSuppression("c@example.com", mail.SuppressHardBounce, 1100)
	bounced.EndMillis = 1_500_123
	_, err = db.Suppress(f.ctx, []mail.Suppression{bounced})
	must(t, err)
	bounces := mail.SuppressionQuery{Reason: mail.SuppressHardBounce, ToMillis: 2e6, NowMillis: bounced.EndMillis - 1}
	list(bounces, bounced)
	bounces.NowMillis++
	list(bounces)
}

// testSuppressionsGoneBack: what changes in a database that has lost its last changes is
// read by a process that has read those.
func testSuppressionsGoneBack(t *testing.T, f *fixture) {
	const lost, later = 5, 10
	db := f.store.(mail.SuppressionStore)
	suppress := func(name string, n int) {
		t.Helper()
		var changes []mail.Suppression
		for i := range n {
			changes = append(changes, aSuppression(fmt.Sprintf("%s%d@example.com", name, i), mail.SuppressManual, 1000))
		}
		_, err := db.Suppress(f.ctx, changes)
		must(t, err)
	}
	suppress("kept", 1)
	kept, err := db.LastSuppression(f.ctx)
	must(t, err)
	suppress("lost", lost)
	read, err := db.LastSuppression(f.ctx)
	must(t, err)
	f.Exec(t, fmt.Sprintf("DELETE FROM suppressions WHERE number > %d", kept))
	f.Exec(t, fmt.Sprintf("UPDATE cursors SET pos_major = %d WHERE follower = 'suppressions'", kept))
	suppress("later", later)
	found := 0
	must(t, db.SuppressionChanges(f.ctx, read, later+1, func(*mail.Suppression) { found++ }))
	if found != later {
		t.Errorf("%d of %d changes have numbers above the last one that was read before", found, later)
	}
}

// testSuppressionOrder: a reader that has read up to the last number misses no
// change made at the same time.
func testSuppressionOrder(t *testing.T, f *fixture) {
	const writers, each = 3, 15
	var done sync.WaitGroup
	for w := range writers {
		store := f.store
		if w > 0 && f.OpenThrough != nil { // a process of its own
			store = f.Open(t)
		}
		done.Go(func() {
			for i := range each {
				changes := []mail.Suppression{
					aSuppression(fmt.Sprintf("%d@w%d.example", i, w), mail.SuppressManual, 1000),
					aSuppression("all@example.com", mail.SuppressManual, int64(2000+i*writers+w)),
				}
				if _, err := store.(mail.SuppressionStore).Suppress(f.ctx, changes); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { done.Wait(); close(written) }()
	reader := f.store.(mail.SuppressionStore)
	seen := make(map[string]bool)
	for at, more := int64(0), true; more; {
		select {
		case <-written:
			more = false // and once more
		default:
		}
		last, err := reader.LastSuppression(f.ctx)
		must(t, err)
		for at < last {
			from := at
			must(t, reader.SuppressionChanges(f.ctx, at, 7, func(s *mail.Suppression) { seen[s.Entry], at = true, s.Number }))
			if at == from {
				t.Fatalf("the last number is %d, and there is no change after %d", last, at)
			}
		}
	}
	if want := writers*each + 1; len(seen) != want {
		t.Errorf("%d entries were read, want %d", len(seen), want)
	}
}
