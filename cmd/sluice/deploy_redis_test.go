package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/lib/child"
	"sluice/test/servers"
)

// bindHere keeps the servers of the files on this machine, and is all that is not said by
// the page.
const (
	bindAll  = "bind * -::*"
	bindHere = "bind 127.0.0.1"
)

// startByFile starts a Redis, or a sentinel, by a file of deploy/redis. pairs are what is
// replaced beside its port, directory and address.
func startByFile(t *testing.T, file string, text string, port int, pairs ...string) *servers.RedisByFile {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "redis")
	r, err := servers.StartRedisByFile(t.Context(), servers.RedisFileOptions{
		Dir: dir, Sentinel: file == sentinelConf,
		Text: func(free int) string {
			return filledIn(t, file, text, append([]string{
				fmt.Sprintf("\nport %d\n", port), fmt.Sprintf("\nport %d\n", free), bindAll, bindHere, "dir /var/lib/redis", "dir " + dir,
			}, pairs...)...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Kill()
		if t.Failed() {
			t.Logf("%s at %s says\n%s", file, r.Addr(), child.Tail(r.LogPath()))
		}
	})
	return r
}

const (
	masterConf   = "deploy/redis/master.conf"
	sentinelConf = "deploy/redis/sentinel.conf"
	clusterConf  = "deploy/redis/cluster.conf"
)

// addresses are pairs for filledIn: the addresses of machines of the page, and those of
// servers here.
func addresses(port int, all ...*servers.RedisByFile) (pairs []string) {
	for i, r := range all {
		pairs = append(pairs, fmt.Sprintf("10.0.0.%d:%d", i%3+1, port+i/3), r.Addr())
	}
	return pairs
}

// TestDeployedSentinels: a master and two replicas by master.conf, three sentinels by
// sentinel.conf. The master is killed, and is a replica when it is started again.
func TestDeployedSentinels(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	text := readText(t, masterConf)
	const follow = "replicaof 10.0.0.1 6379"
	if !strings.Contains(text, "add: "+follow+"\n") || !strings.Contains(readText(t, scalePage), "`"+follow+"`") {
		t.Fatalf("%s or %s does not say %q", masterConf, scalePage, follow)
	}
	master := startByFile(t, masterConf, text, 6379, "CHANGE-ME", password)
	at := "127.0.0.1 " + strconv.Itoa(master.Port())
	for range 2 {
		startByFile(t, masterConf, text+follow+"\n", 6379, "CHANGE-ME", password, "10.0.0.1 6379", at)
	}
	var sentinels []*servers.RedisByFile
	for range 3 {
		sentinels = append(sentinels, startByFile(t, sentinelConf, readText(t, sentinelConf), 26379, "CHANGE-ME", password, "10.0.0.1 6379", at))
	}
	line := scaleLine(t, "redis: redis-sentinel://")
	d := serveDeployed(t, filledIn(t, scalePage, line, append(addresses(26379, sentinels...), "PASSWORD", password)...))
	d.well(t, "after the start")
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	d.store(t, "behind the promotion")
	if err := master.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.well(t, "after the return of the old master")
}

// TestDeployedCluster: six nodes by cluster.conf, joined by the command of the page. One
// master is killed, and is a replica when it is started again.
func TestDeployedCluster(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	var nodes []*servers.RedisByFile
	for range 6 {
		nodes = append(nodes, startByFile(t, clusterConf, readText(t, clusterConf), 6379, "CHANGE-ME", password))
	}
	words := strings.Fields(filledIn(t, scalePage, scaleLine(t, "redis-cli -a PASSWORD --cluster create"), append(addresses(6379, nodes...), "PASSWORD", password)...))
	client, err := child.Find("run `make deps`", words[0], "valkey-cli")
	if err != nil {
		t.Fatal(err)
	}
	create := exec.CommandContext(t.Context(), client, words[1:]...)
	create.Stdin = bytes.NewBufferString("yes\n") // it asks whether to
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", words, err, out)
	}
	line := scaleLine(t, "redis: redis://:PASSWORD@")
	d := serveDeployed(t, filledIn(t, scalePage, line, append(addresses(6379, nodes[:3]...), "PASSWORD", password)...))
	d.well(t, "after the start")
	if err := nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	d.store(t, "behind the promotion")
	if err := nodes[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.well(t, "after the return of the old master")
}
