package flow

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/mail"
	"sluice/test/servers"
)

// TestASlotWithoutAServerHidesNoOther: what is asked of several slots at once is answered
// for those that have a server.
func TestASlotWithoutAServerHidesNoOther(t *testing.T) {
	t.Parallel()
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r, err := Dial(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	logs := logsOf(r, 4)
	for _, l := range logs {
		if _, err := l.Append(t.Context(), "test", "", "1", oneEvent("a"), false); err != nil {
			t.Fatal(err)
		}
	}
	owing, today := &Owing{}, fmt.Sprint("key|", time.Now().UnixMilli()/(24*60*60*1000))
	for i, l := range logs {
		owing.Lanes = append(owing.Lanes, l.Lanes())
		do(t, r, "HSET", l.partition.owedKey(), today, strconv.Itoa(1+i%2))
	}
	owed := func() mail.Load {
		got, err := owing.Read(t.Context(), time.Now().UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		return got["key"]
	}
	if got := owed(); got != (mail.Load{Sends: 6}) {
		t.Errorf("%+v are pending, want 6", got)
	}
	do(t, r, "HINCRBY", logs[2].partition.owedKey(), today, "1")
	slot, err := c.SlotOf(logs[1].partition.logKey())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DropSlot(slot); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client knows no server of the slot", func() bool {
		_, err := logs[1].Entries(t.Context())
		return errors.Is(err, rueidis.ErrNoSlot)
	})
	if got := owed(); got != (mail.Load{Sends: 7}) {
		t.Errorf("%+v are pending, want 7: what cannot be read counts as before", got)
	}
	for i, s := range LogStates(t.Context(), logs) {
		if want := i != 1; s.Known != want || (s.Last != sluice.Position{}) != want {
			t.Errorf("partition %d: %+v, want it known: %v", i, s, want)
		}
	}
}
