package servers

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
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

// The replicas follow, one takes a killed master's place, and a slot moves.
func TestRedisClusterOfSix(t *testing.T) {
	t.Parallel()
	c, err := StartRedisCluster(t.Context(), ClusterOptions{Dir: t.TempDir(), Masters: 3, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	slot, err := c.SlotOf("{members}")
	if err != nil {
		t.Fatal(err)
	}
	from := c.MasterOf(slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	if _, err := say(from, "SET {members}:x 1"); err != nil {
		t.Fatal(err)
	}
	if err := c.BeginMove(slot, from, to); err != nil {
		t.Fatal(err)
	}
	if err := c.EndMove(slot, from, to); err != nil {
		t.Fatal(err)
	}
	if now := c.MasterOf(slot); now != to {
		t.Fatal("the slot has not moved")
	}
	awaitReplica(t, to, "{members}:y") // what a replica lacks it cannot have
	if err := to.Kill(); err != nil {
		t.Fatal(err)
	}
	var master *Redis
	await(t, func() bool { master = c.MasterOf(slot); return master != nil })
	if value, err := say(master, "GET {members}:x"); err != nil || value[0] != "1" {
		t.Errorf("the promoted replica has %q, %v", value, err)
	}
}

// awaitReplica returns when a replica has all that a server has. WAIT is about what its
// own connection has written, so a key is written first.
func awaitReplica(t *testing.T, r *Redis, key string) {
	t.Helper()
	conn, err := net.Dial("unix", r.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "SET "+key+" 1\r\nWAIT 1 0\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, want := range []string{"+OK", ":1"} {
		if answer, err := answered(in); err != nil || answer[0] != want {
			t.Fatalf("%q, %v, want %s", answer, err, want)
		}
	}
}

// A replica takes a killed master's place.
func TestSentinels(t *testing.T) {
	t.Parallel()
	s, err := StartSentinels(t.Context(), SentinelOptions{Dir: t.TempDir(), Replicas: 1, Sentinels: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.Master() != s.Servers[0] {
		t.Fatal("the first server is not the master")
	}
	if err := s.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return s.Master() == s.Servers[1] })
}

func await(t *testing.T, reached func() bool) {
	t.Helper()
	for !reached() {
		select {
		case <-time.After(clusterLook):
		case <-t.Context().Done():
			t.Fatal("the test ended first")
		}
	}
}
