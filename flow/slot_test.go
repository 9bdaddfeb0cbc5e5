package flow

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"sluice"
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
	for i, s := range LogStates(t.Context(), logs) {
		if want := i != 1; s.Known != want || (s.Last != sluice.Position{}) != want {
			t.Errorf("partition %d: %+v, want it known: %v", i, s, want)
		}
	}
}
