package engine_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/flow"
	"sluice/test/servers"
)

var (
	movedMegabytes = flag.String("moved-megabytes", "1", "sizes of the keys that TestMoveOfLargeKeys moves, with commas between them")
	movedTimeout   = flag.Int("moved-node-timeout", 15000, "cluster-node-timeout of TestMoveOfLargeKeys, in ms; that of deploy/redis/cluster.conf is 3000, in which a busy machine may rest")
)

// movedPartitions is how many partitions TestMoveOfLargeKeys has.
const movedPartitions = 4

// TestMoveOfLargeKeys moves a slot with a partition and a key as large as the flag says,
// under a light load. It prints how long the move of that key and the longest request
// took: Redis serves nothing else meanwhile, where the key comes from and where it goes
// to. A stream stands for logs and lanes, a hash for notes of cancels.
func TestMoveOfLargeKeys(t *testing.T) {
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{
		Dir: filepath.Join(t.TempDir(), "cluster"), Masters: 3, Replicas: 1,
		Extra: []string{"--cluster-node-timeout", strconv.Itoa(*movedTimeout)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	e := open(t, c.URL(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), movedPartitions)
	l := startLoad(t, e, 20*time.Millisecond)
	for _, kind := range []string{"stream", "hash"} {
		for size := range strings.SplitSeq(*movedMegabytes, ",") {
			megabytes, err := strconv.Atoi(size)
			if err != nil {
				t.Fatal(err)
			}
			l.moveLargeKey(t, c, kind, megabytes)
		}
	}
	l.check(t, movedPartitions)
}

// moveLargeKey moves the slot of the first partition, with a key of so many megabytes,
// from its master to another.
func (l *load) moveLargeKey(t *testing.T, c *servers.RedisCluster, kind string, megabytes int) {
	t.Helper()
	const slot = servers.ClusterSlots / (2 * movedPartitions) // flow.Partitions spaces them evenly
	from, to := c.MasterOf(slot), c.MasterOf(slot+servers.ClusterSlots/2)
	if to == from { // it was moved there before
		to = c.MasterOf(slot + 1)
	}
	key := flow.Partitions(movedPartitions)[0].AlertsKey() + ":large" // it is in the slot, and nobody reads it
	source := clientOf(t, from)
	fill(t, source, key, kind, megabytes)
	taken := l.watch()
	l.more(t)
	usual, _ := taken()
	taken = l.watch()
	began := time.Now()
	err := c.BeginMove(slot, from, to, key)
	move := time.Since(began)
	if err = errors.Join(err, c.EndMove(slot, from, to)); err != nil {
		t.Fatalf("move a %s of %d MB: %v, after %s, %s of it for the key; beyond cluster-node-timeout a replica is promoted meanwhile, which breaks the move off",
			kind, megabytes, err, round(time.Since(began)), round(move))
	}
	whole := time.Since(began)
	l.more(t)
	longest, refused := taken()
	t.Logf("%s of %d MB: moved in %s, its slot in %s; longest request %s, before %s; %d refused; its master is the one it was moved to: %v",
		kind, megabytes, round(move), round(whole), round(longest), round(usual), refused, c.MasterOf(slot) == to)
	target := clientOf(t, to)
	if err := target.Do(t.Context(), target.B().Unlink().Key(key).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// more returns when 200 more events are accepted.
func (l *load) more(t *testing.T) {
	t.Helper()
	from := l.count()
	await(t, "200 more events are accepted", func() bool { return l.count() > from+200 })
}

func clientOf(t *testing.T, r *servers.Redis) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// What a large key is made of.
const (
	streamEntryBytes = 32 << 10 // of some 200 events
	hashEntryBytes   = 100      // the memory of an id and a time
	fillAtOnceBytes  = 1 << 20
)

// fill makes a key of so many megabytes of memory, of what is not easily compressed, and
// returns when its replica has it.
func fill(t *testing.T, client rueidis.Client, key, kind string, megabytes int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	text := func(n int) string {
		b := make([]byte, n/2)
		_, _ = random.Read(b)
		return hex.EncodeToString(b)
	}
	for range megabytes << 20 / fillAtOnceBytes {
		var all rueidis.Commands
		if kind == "stream" {
			for range fillAtOnceBytes / streamEntryBytes {
				all = append(all, client.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("batch", text(streamEntryBytes)).Build())
			}
		} else {
			fields := client.B().Hset().Key(key).FieldValue()
			for range fillAtOnceBytes / hashEntryBytes {
				fields = fields.FieldValue(text(32), strconv.FormatInt(time.Now().UnixMilli(), 10))
			}
			all = append(all, fields.Build())
		}
		for _, answer := range client.DoMulti(t.Context(), all...) {
			if err := answer.Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := client.Do(t.Context(), client.B().Wait().Numreplicas(1).Timeout(20_000).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	memory, err := client.Do(t.Context(), client.B().MemoryUsage().Key(key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s of %d MB: it has %d MB of memory", kind, megabytes, memory>>20)
}
