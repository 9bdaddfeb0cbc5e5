package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/lib/outbound"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
	"sluice/track/feed"
)

const (
	follower   = "store"
	partitions = 3
	begin      = int64(1_780_000_000_000)
)

// kit is a database with events, and what posts them.
type kit struct {
	t       *testing.T
	store   *sqlstore.Store
	clock   *clocktest.Clock
	service *Service
	at      map[int]sluice.Position
	written map[int][]string // ids, by partition
	rows    int
	told    []string // events of the system's
}

func newKit(t *testing.T) *kit {
	t.Helper()
	clock := clocktest.At(time.UnixMilli(begin))
	s := tables.Open(t, sqlstore.Options{Clock: clock})
	k := &kit{t: t, store: s, clock: clock, written: make(map[int][]string)}
	at, err := s.Cursors(t.Context(), follower, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	k.at = at
	guard := &outbound.Guard{Allow: []string{"127.0.0.1"}}
	k.service = &Service{Store: s, Guard: guard, Secrets: rooted("a root of 32 bytes, or thereabout"), Follower: follower, Clock: clock}
	return k
}

// rooted returns secrets that are made of a root.
func rooted(root string) func(context.Context) (*Secrets, error) {
	return func(context.Context) (*Secrets, error) { return &Secrets{Root: []byte(root)}, nil }
}

// put stores events as the store follower does: each at a place, with any time.
func (k *kit) put(part int, names ...string) {
	k.t.Helper()
	from := k.at[part]
	to := sluice.Position{Major: uint64(k.clock.Now().UnixMilli()), Minor: from.Minor + 1}
	var events []store.StoredEvent
	for i, name := range names {
		k.rows++
		kind, name, _ := strings.Cut(name, ".")
		e := sluice.Event{TimeMillis: begin - int64(k.rows%7)*86_400_000, ID: fmt.Sprintf("%d-%d", part, k.rows), Name: name, App: "shop", User: "u1", Properties: `{"n":1}`}
		e.Kind, _ = sluice.ParseEventKind(kind)
		events = append(events, store.StoredEvent{Event: e, Place: sluice.Place{Partition: part, Position: to, Index: i}})
		k.written[part] = append(k.written[part], e.ID)
	}
	p, err := k.store.Prepare(&store.Effect{Events: events, Moves: []store.Move{{Follower: follower, Partition: part, From: from, To: to}}})
	if err == nil {
		_, err = k.store.Apply(k.t.Context(), p)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.at[part] = to
}

// sender returns what posts, beside any other one.
func (k *kit) sender() *Sender {
	return &Sender{Store: k.store, Heads: &feed.Heads{Store: k.store, Follower: follower, Clock: sluice.SystemClock{}}, Clock: k.clock, Log: slog.New(slog.DiscardHandler), Guard: k.service.Guard,
		Secrets: k.service.Secrets, GiveUp: 24 * time.Hour, Stats: &Stats{},
		Announce: func(_ context.Context, e *sluice.Event) error {
			k.told = append(k.told, e.Name+" "+e.Properties)
			return nil
		}}
}

// run posts until the test ends, or the function that it returns is called.
func (k *kit) run(s *Sender) (stop func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.session(ctx, k.t.Context()) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	k.t.Cleanup(stop)
	return stop
}

// add makes an endpoint.
func (k *kit) add(url string, batch int, types ...string) (store.Webhook, string) {
	k.t.Helper()
	w, secret, err := k.service.Add(k.t.Context(), &Change{URL: &url, Batch: &batch, Types: &types})
	if err != nil {
		k.t.Fatal(err)
	}
	return w, secret
}

// got is a request that a receiver has taken.
type got struct {
	id, timestamp, signature, kind string
	events                         []string // ids
	body                           []byte
	header                         http.Header
}

// receiver keeps what it is posted.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	all    []got
	answer func(n int, w http.ResponseWriter, r *http.Request) // of the n-th; it may be replaced
	asked  int
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		var shape struct {
			Type string
			Data struct {
				ID     string `json:"event_id"`
				Events []struct {
					ID string `json:"event_id"`
				}
			}
		}
		if err := json.Unmarshal(body, &shape); err != nil {
			t.Errorf("body %.200s: %v", body, err)
		}
		g := got{id: q.Header.Get("webhook-id"), timestamp: q.Header.Get("webhook-timestamp"), signature: q.Header.Get("webhook-signature"), kind: shape.Type, body: body, header: q.Header}
		if shape.Data.ID != "" {
			g.events = []string{shape.Data.ID}
		}
		for _, e := range shape.Data.Events {
			g.events = append(g.events, e.ID)
		}
		r.mu.Lock()
		n, act := r.asked, r.answer
		r.asked++
		r.all = append(r.all, g)
		r.mu.Unlock()
		if act != nil {
			act(n, w, q)
		}
	}))
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// ids are those of all events, in the order in which they arrived.
func ids(all []got) (ids []string) {
	for _, g := range all {
		ids = append(ids, g.events...)
	}
	return ids
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
		_ = sluice.Pause(t.Context(), 5*time.Millisecond)
	}
}
