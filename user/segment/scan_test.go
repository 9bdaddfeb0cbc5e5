package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
)

const (
	partitions = 5
	people     = 2*pageUsers + 777 // several pages, in partition 0; a hundred in 1 and 3, nobody in the others
)

// manyUsers is a store of them, the ten rules that are asked, and for each rule
// who it holds for, in order.
func manyUsers(t *testing.T) (*sqlstore.Store, []*rule.Rule, [][]user.ID) {
	t.Helper()
	db := tables.Open(t, sqlstore.Options{})
	var rules []*rule.Rule
	for i := range 10 {
		r, err := rule.Compile(fmt.Sprintf(`{"attribute":"rest%d","is":"equals","value":0}`, i+2))
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	held := make([][]user.ID, len(rules))
	changes := &user.Changes{}
	for part, n := range []int{people, 100, 0, 100, 0} {
		for i := 1; i <= n; i++ {
			id := user.ID{Partition: part, Number: int64(i)}
			row := user.Row{ID: id, UpdatedMillis: 1, MergedInto: user.ID{Partition: 0, Number: 1}}
			if i%50 != 0 {
				p := &profile.Profile{ExternalID: fmt.Sprintf("u\"%d-%d", part, i)}
				text := `{"x":1`
				for m := range 10 {
					text += fmt.Sprintf(`,"rest%d":%d`, m+2, i%(m+2))
					if i%(m+2) == 0 {
						held[m] = append(held[m], id)
					}
				}
				p.SetAttributes(text+"}", 0)
				row.Profile, row.MergedInto = string(p.Append(nil)), user.ID{}
			}
			changes.Put = append(changes.Put, row)
		}
	}
	e, err := db.Prepare(&store.Effect{Users: changes})
	if err == nil {
		_, err = db.Apply(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, rules, held
}

func TestScan(t *testing.T) {
	store, rules, held := manyUsers(t)
	c := clocktest.At(time.Unix(1_700_000_000, 0))
	s := NewScanner(store, partitions, c)
	counts, err := s.Count(t.Context(), rules...)
	if want := int64(people - people/50 + 2*98); err != nil || counts.Users != want || counts.Unread != 0 {
		t.Fatalf("%+v, %v, want %d users", counts, err, want)
	}
	for i, n := range counts.Holds {
		if n != int64(len(held[i])) {
			t.Errorf("rule %d: %d, want %d", i, n, len(held[i]))
		}
	}
	for _, x := range []struct{ rule, limit int }{{0, 1000}, {9, 1}, {9, 64}, {8, 100_000}, {5, len(held[5])}} {
		var got []user.ID
		at := &user.ID{}
		for pages := 0; at != nil; pages++ {
			var members []Member
			members, at, err = s.Members(t.Context(), rules[x.rule], *at, x.limit, time.Second)
			if err != nil || len(members) > x.limit || at != nil && len(members) != x.limit || pages > len(held[x.rule]) {
				t.Fatalf("%+v: page %d of %d, %v, %v", x, pages, len(members), at, err)
			}
			for _, m := range members {
				if m.ExternalID != fmt.Sprintf("u\"%d-%d", m.ID.Partition, m.ID.Number) {
					t.Fatalf("%+v", m)
				}
				got = append(got, m.ID)
			}
			if x.limit == 1 && pages == 20 {
				break
			}
		}
		if want := held[x.rule][:len(got)]; !slices.Equal(got, want) || x.limit > 1 && len(got) != len(held[x.rule]) {
			t.Errorf("%+v: %d members, want %d", x, len(got), len(held[x.rule]))
		}
	}
}

// lateStore moves the clock with each read, and has one more user to tell.
type lateStore struct {
	user.Store
	clock *clocktest.Clock
	reads int
}

func (s *lateStore) EachProfile(ctx context.Context, part int, after int64, limit int, f func(int64, string) bool) error {
	s.reads++
	s.clock.Move(time.Second)
	return s.Store.EachProfile(ctx, part, after, limit, f)
}

// A search for rare users returns a place to go on in time, and finds all.
func TestMembersArePatient(t *testing.T) {
	store, _, _ := manyUsers(t)
	r, err := rule.Compile(fmt.Sprintf(`{"field":"external_id","is":"is_one_of","value":["u\"0-%d","u\"3-99"]}`, people))
	if err != nil {
		t.Fatal(err)
	}
	c := clocktest.At(time.Unix(1_700_000_000, 0))
	late := &lateStore{Store: store, clock: c}
	s := NewScanner(late, partitions, c)
	var got []Member
	at, calls := &user.ID{}, 0
	for ; at != nil && calls < 1000; calls++ {
		before := late.reads
		var members []Member
		if members, at, err = s.Members(t.Context(), r, *at, 10, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if late.reads-before > 5 {
			t.Fatalf("%d reads of a second each, where two seconds are given", late.reads-before)
		}
		got = append(got, members...)
	}
	want := []Member{{user.ID{Number: people}, fmt.Sprintf("u\"0-%d", people)}, {user.ID{Partition: 3, Number: 99}, "u\"3-99"}}
	if !slices.Equal(got, want) || calls < 3 {
		t.Errorf("%v after %d calls, want %v", got, calls, want)
	}
}

// A search among users with large profiles, of which a page has few, returns in time, too.
func TestMembersWithLargeProfilesArePatient(t *testing.T) {
	r, err := rule.Compile(`{"attribute":"none","is":"exists"}`)
	if err != nil {
		t.Fatal(err)
	}
	c := clocktest.At(time.Unix(1_700_000_000, 0))
	late := &lateStore{Store: &largeStore{users: 40, text: `{"custom":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`}, clock: c}
	s := NewScanner(late, 1, c)
	at, calls := &user.ID{}, 0
	for ; at != nil && calls < 1000; calls++ {
		before := late.reads
		if _, at, err = s.Members(t.Context(), r, *at, 10, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if n := late.reads - before; n > 2 {
			t.Fatalf("%d reads of a second each, where two seconds are given", n)
		}
	}
	if at != nil || late.reads < 40/(pageBytes>>20) {
		t.Errorf("after %d calls with %d reads it is at %v, want all users read", calls, late.reads, at)
	}
}

// heldStore lets nobody read before it is told.
type heldStore struct {
	user.Store
	waiting chan struct{}
}

func (s *heldStore) EachProfile(ctx context.Context, _ int, _ int64, _ int, _ func(int64, string) bool) error {
	select {
	case s.waiting <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return ctx.Err()
}

// So many scans and reads at a time, and none when nobody wants it any more.
func TestScansAreBounded(t *testing.T) {
	r, err := rule.Compile(`{"bucket":"a","is":"less_than","value":1}`)
	if err != nil {
		t.Fatal(err)
	}
	held := &heldStore{waiting: make(chan struct{})}
	s := NewScanner(held, partitions, sluice.SystemClock{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	for range MaxScans {
		go func() {
			_, err := s.Count(ctx, r)
			ended <- err
		}()
	}
	for range parallelReads {
		<-held.waiting
	}
	for len(s.scans) < MaxScans { // the second may not have begun
		if len(s.reads) != parallelReads {
			t.Fatalf("%d read", len(s.reads))
		}
	}
	if _, err := s.Count(ctx, r); !errors.Is(err, ErrBusy) {
		t.Errorf("one more count: %v", err)
	}
	if _, _, err := s.Members(ctx, r, user.ID{}, 1, time.Second); !errors.Is(err, ErrBusy) {
		t.Errorf("members beside them: %v", err)
	}
	cancel()
	for range MaxScans {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a count nobody wants: %v", err)
		}
	}
	if len(s.scans)+len(s.reads) > 0 {
		t.Error("a place is not given back")
	}
}

// largeStore has users with large profiles, and notes how many reads
// ask for and take.
type largeStore struct {
	user.Store
	users int64
	text  string

	mu    sync.Mutex
	most  int
	asked int // in all reads
}

func (s *largeStore) EachProfile(_ context.Context, _ int, after int64, limit int, f func(int64, string) bool) error {
	taken := 0
	for n := after + 1; n <= s.users && taken < limit; n++ {
		taken++
		if !f(n, s.text) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, taken)
	s.asked += limit
	return nil
}

// Of large profiles fewer are held at a time, and all are looked at.
func TestPagesAreBoundedInBytes(t *testing.T) {
	r, err := rule.Compile(`{"attribute":"x","is":"exists"}`)
	if err != nil {
		t.Fatal(err)
	}
	large := &largeStore{users: 23, text: `{"custom":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`}
	s := NewScanner(large, 2, sluice.SystemClock{})
	counts, err := s.Count(t.Context(), r)
	if err != nil || counts.Users != 46 || counts.Holds[0] != 46 || large.most != pageBytes>>20 {
		t.Errorf("%+v, %v, %d at a time", counts, err, large.most)
	}
	if most := 2 * (firstUsers + 23 + 2*(pageBytes>>20)); large.asked > most {
		t.Errorf("%d users were asked for, want %d at most", large.asked, most)
	}
}
