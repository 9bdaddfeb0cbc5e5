package flow

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/test/clocktest"
	"sluice/test/proxy"
	"sluice/test/servers"
)

// testRedis is the server of this test binary; tests keep apart by emptying it.
var testRedis *servers.Redis

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-flow-")
	if err != nil {
		panic(err)
	}
	testRedis, err = servers.StartRedis(context.Background(), servers.RedisOptions{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = testRedis.Kill()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// dialBy dials a Redis by a proxy, which the test may count by or cut.
func dialBy(t *testing.T, network, address string) (*Redis, *proxy.Proxy) {
	t.Helper()
	way, err := proxy.New(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	r, err := Dial(t.Context(), "redis://"+way.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, way
}

// dial returns a client of an emptied server.
func dial(t *testing.T) *Redis {
	t.Helper()
	r, err := Dial(t.Context(), testRedis.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	c := r.client
	for _, command := range [][]string{{"FLUSHALL"}, {"CONFIG", "SET", "maxmemory", "0"}} {
		if err := c.Do(t.Context(), c.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// dialClusterNode returns a client of a server that knows about slots.
func dialClusterNode(t *testing.T) *Redis {
	t.Helper()
	node, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{"--cluster-enabled", "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Kill() })
	option, err := rueidis.ParseURL(node.URL())
	if err != nil {
		t.Fatal(err)
	}
	option.ForceSingleClient = true // it is a cluster of one that owns no slot
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &Redis{client: client, name: "cluster node"}
}

// A start waits for a cluster of which a node is away, as it does for a server.
func TestAClusterThatIsDownIsAway(t *testing.T) {
	r := dialClusterNode(t) // of the slots it knows no owner
	if _, err := Ask(t.Context(), r, "read key", r.B().Get().Key("key").Build(), Text); !IsAway(err) {
		t.Errorf("%v does not say that the cluster is away", err)
	}
}

// do runs any command and fails the test if it fails.
func do(t *testing.T, r *Redis, words ...string) string {
	t.Helper()
	v, err := r.client.Do(t.Context(), r.client.B().Arbitrary(words...).Build()).ToAny()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(v)
}

// numbers issues lease numbers as a store does.
type numbers struct {
	mu   sync.Mutex
	last map[string]uint64
}

func (n *numbers) TakeLease(_ context.Context, role string, partitions []int) (map[int]uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = make(map[string]uint64)
	}
	out := make(map[int]uint64)
	for _, p := range partitions {
		key := role + "/" + strconv.Itoa(p)
		n.last[key]++
		out[p] = n.last[key]
	}
	return out, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// leaseOn takes the lease of a key without a lease keeper.
func leaseOn(t *testing.T, r *Redis, key string) *Lease {
	t.Helper()
	p := place{redis: r, key: key}
	s, _, err := p.seen(r.client.DoMulti(t.Context(), r.client.B().Hmget().Key(key).Field("owner", "token").Build()))
	if err != nil {
		t.Fatal(err)
	}
	number := do(t, r, "INCR", "test:number")
	lease := &Lease{key: key, token: newToken()}
	n, err := r.callInt(t.Context(), "take", "claim", []string{key}, []string{s.token, "test", number, lease.token})
	if err != nil || n != 1 {
		t.Fatalf("take lease %s: %d, %v", key, n, err)
	}
	return lease
}

// oneEvent is a batch of one event.
func oneEvent(name string) []byte {
	return sluice.AppendEvent(sluice.NewBatch(64), &sluice.Event{Name: name})
}

// eventually waits for a condition, which is all that is asked of time here.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("waited in vain until %s", what)
		}
		clocktest.Rest(began)
	}
}
