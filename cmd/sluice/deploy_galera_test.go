package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/test/servers"
)

const galeraConf = "deploy/mariadb/galera.cnf"

// TestDeployedGalera: three nodes by galera.cnf. The node that the program works on is
// killed.
func TestDeployedGalera(t *testing.T) {
	t.Parallel()
	dir, password := t.TempDir(), rand.Text()
	g, err := servers.StartGaleraByFile(t.Context(), filepath.Join(dir, "nodes"), 3, func(node int, group []string) string {
		own := filepath.Join(dir, "galera"+strconv.Itoa(node)+".cnf")
		write(t, own, filledIn(t, galeraConf, readText(t, galeraConf),
			"gcomm://10.0.0.1,10.0.0.2,10.0.0.3", "gcomm://"+strings.Join(group, ","), "= 10.0.0.1\n", "= 127.0.0.1\n"))
		if err := os.Chmod(own, 0o644); err != nil { // as root the server runs as mysql
			t.Fatal(err)
		}
		return own
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	operatorOf(t, g.Nodes[1]).run(t, "CREATE DATABASE sluice; CREATE USER sluice@'127.0.0.%' IDENTIFIED BY '"+password+"'; GRANT ALL ON sluice.* TO sluice@'127.0.0.%'")
	line := filledIn(t, scalePage, scaleLine(t, "database: mysql://USER:PASSWORD@10.0.0.1:3306,10.0.0.2:3306,10.0.0.3:3306/sluice"), "USER", "sluice", "PASSWORD", password,
		"10.0.0.1:3306", g.Nodes[0].Addr(), "10.0.0.2:3306", g.Nodes[1].Addr(), "10.0.0.3:3306", g.Nodes[2].Addr())
	d := serveDeployed(t, line)
	d.well(t, "after the start")
	if err := g.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	d.store(t, "behind the kill")
}
