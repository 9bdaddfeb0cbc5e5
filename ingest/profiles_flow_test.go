package ingest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
)

// weighing is a store that notes how many bytes of profiles its largest transaction wrote.
type weighing struct {
	*sqlstore.Store
	most atomic.Int64
}

func (w *weighing) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	if changes := p.Effect().Users; changes != nil {
		var bytes int64
		for i := range changes.Put {
			bytes += int64(len(changes.Put[i].Profile))
		}
		w.most.Store(max(w.most.Load(), bytes))
	}
	return w.Store.Apply(ctx, p)
}

// largeUsers makes users of one partition with profiles of a size.
func (b *bed) largeUsers(many, bytes int) (keys []user.Key) {
	b.Helper()
	db, err := sqlstore.Open(b.Context(), b.url, calm)
	b.must(err)
	defer db.Close()
	custom := `","custom":{"n":0,"x":"` + strings.Repeat("x", bytes) + `"}}`
	for i := 0; len(keys) < many; i++ {
		k := external(i)
		if k.Partition(testPartitions) != 0 {
			continue
		}
		keys = append(keys, k)
		id := user.ID{Number: int64(len(keys))}
		e, err := db.Prepare(&store.Effect{Users: &user.Changes{
			Put:     []user.Row{{ID: id, UpdatedMillis: 1, Profile: `{"external_id":"` + k.Name + custom}},
			AddKeys: []user.KeyRow{{Key: k, ID: id}},
			Numbers: map[int]user.Numbers{0: {User: id.Number}},
		}})
		b.must(err)
		_, err = db.Apply(b.Context(), e)
		b.must(err)
	}
	return keys
}

// Users with large profiles are stored by transactions of few of them, so that they have
// room in memory. A batch that alone has more than that is stored all the same.
func TestLargeProfilesAreStoredByPieces(t *testing.T) {
	const (
		large = 1 << 20
		many  = 80
		each  = 4 // a batch
	)
	if many*large <= ingest.MostProfiles {
		t.Fatal("they have room in one transaction: this test shows nothing")
	}
	b := newBed(t, "sqlite")
	keys := b.largeUsers(many, large)
	first := startPeopleWith(b, setup{noStore: true})
	inc := func(keys []user.Key) (all []user.Update) {
		for _, k := range keys {
			all = append(all, attributes(k, `{"n":{"inc":1}}`))
		}
		return all
	}
	for at := 0; at < many; at += each {
		first.send(inc(keys[at : at+each])...)
	}
	first.e.stop()

	w := &weighing{}
	p := startPeopleWith(b, setup{store: func(s store.Store) store.Store { w.Store = s.(*sqlstore.Store); return w }})
	stored := func(n string) {
		t.Helper()
		for _, k := range keys {
			p.awaitUser("the update is stored", k, func(u *profile.Profile) bool { return u.Custom.Get("n") == n && len(u.Custom.Get("x")) == large+2 })
		}
	}
	stored("1")
	if most := w.most.Load(); most > ingest.MostProfiles+large {
		t.Errorf("a transaction wrote %d bytes of profiles, want %d at most", most, ingest.MostProfiles+large)
	}
	p.intake.Writer = flow.NewWriter(p.e.logs, "second", 1<<28)
	p.send(inc(keys)...)
	stored("2")
	b.checkCounts("events", 0, 0)
}
