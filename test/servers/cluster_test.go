package servers

import (
	"strings"
	"testing"
)

// A cluster serves all slots, and the one apart has a node of its own.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c, err := StartRedisCluster(t.Context(), ClusterOptions{Dir: t.TempDir(), Masters: 3, Apart: "{members}"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if len(c.Nodes) != 4 {
		t.Fatalf("%d nodes, want 3 masters and one for the slot apart", len(c.Nodes))
	}
	keyslot, err := say(c.Nodes[3], "CLUSTER KEYSLOT {members}")
	if err != nil {
		t.Fatal(err)
	}
	slot := strings.TrimPrefix(keyslot[0], ":")
	lines, err := say(c.Nodes[3], "CLUSTER NODES")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if strings.Contains(line, "myself") != strings.HasSuffix(line, " connected "+slot) {
			t.Errorf("the node apart says %q", line)
		}
	}
	if err := c.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Await(t.Context()); err != nil {
		t.Error(err)
	}
}
