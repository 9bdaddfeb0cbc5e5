package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/lib/child"
)

// galeraProvider is where Debian's package galera-4 has the library, which
// mariadb-server brings along.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

const (
	galeraReadyWithin = busyWithin
	galeraLook        = 100 * time.Millisecond

	// galeraReturnWithin bounds how long a node that goes on may need by itself.
	galeraReturnWithin = 30 * time.Second

	// galeraExpelledWithin is after how long a node knows that it was expelled, and the
	// others that it is silent: evs.suspect_timeout and a look.
	galeraExpelledWithin = 3 * time.Second

	// galeraSynced is the state of a node that has all of the others' writes.
	galeraSynced = 4
)

// Galera is a private Galera cluster of MariaDB on 127.0.0.1. A user root has no
// password.
type Galera struct {
	Nodes []*MariaDB
	group []string // their addresses among each other
	file  func(node int, group []string) (path string)
}

// StartGalera starts a cluster and returns when every node serves. Close kills all
// nodes.
//
// The nodes begin as copies of one that was stopped: a transfer of the whole state
// needs programs that a machine may not have.
func StartGalera(ctx context.Context, dir string, nodes int) (*Galera, error) {
	if _, err := os.Stat(galeraProvider); err != nil {
		return nil, fmt.Errorf("start galera: %w; run `make deps` (Debian and Ubuntu: package galera-4)", err)
	}
	g := &Galera{}
	if err := g.start(ctx, dir, nodes); err != nil {
		return nil, errors.Join(fmt.Errorf("start galera in %s: %w", dir, err), g.Close())
	}
	return g, nil
}

// StartGaleraByFile is StartGalera with an operator's file for each node, which file
// writes for the addresses that the nodes have among each other. Arguments are the ports
// alone that would be the same for all nodes of a machine, and what galera_new_cluster
// gives to the first.
func StartGaleraByFile(ctx context.Context, dir string, nodes int, file func(node int, group []string) (path string)) (*Galera, error) {
	g := &Galera{file: file}
	if err := g.start(ctx, dir, nodes); err != nil {
		return nil, errors.Join(fmt.Errorf("start galera in %s: %w", dir, err), g.Close())
	}
	return g, nil
}

// startNode starts a node; the first one of a new cluster joins nobody.
func (g *Galera) startNode(ctx context.Context, dir string, i int, first bool) (*MariaDB, error) {
	opt := MariaDBOptions{Dir: filepath.Join(dir, "node"+strconv.Itoa(i)), Extra: galeraArguments(g.group, i, first)}
	if g.file != nil {
		opt.File, opt.Extra = g.file(i, g.group), galeraPorts(g.group[i])
		if first {
			opt.Extra = append(opt.Extra, "--wsrep-new-cluster")
		}
	}
	return StartMariaDB(ctx, opt)
}

func (g *Galera) start(ctx context.Context, dir string, nodes int) error {
	group := make([]string, nodes)
	for i := range group {
		port, err := freePort()
		if err != nil {
			return err
		}
		group[i] = "127.0.0.1:" + strconv.Itoa(port)
	}
	g.group = group
	first := filepath.Join(dir, "node0")
	m, err := g.startNode(ctx, dir, 0, true)
	if err != nil {
		return err
	}
	if err := m.Stop(ctx); err != nil {
		return err
	}
	for i := 1; i < nodes; i++ {
		if out, err := exec.CommandContext(ctx, "cp", "-a", first, filepath.Join(dir, "node"+strconv.Itoa(i))).CombinedOutput(); err != nil {
			return fmt.Errorf("copy the first node: %w: %s", err, out)
		}
	}
	for i := range nodes {
		m, err := g.startNode(ctx, dir, i, i == 0)
		if err != nil {
			return err
		}
		g.Nodes = append(g.Nodes, m)
		if err := g.await(ctx, m, len(g.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

// galeraArguments are those of one node. The first one of a new cluster joins nobody.
func galeraArguments(group []string, i int, first bool) []string {
	address := "gcomm://" + strings.Join(group, ",")
	if first {
		address = "gcomm://"
	}
	return append(galeraPorts(group[i], "gcache.size=64M", "evs.keepalive_period=PT0.5S", "evs.suspect_timeout=PT2S", "evs.inactive_timeout=PT4S"),
		"--wsrep-on=ON", "--wsrep-provider="+galeraProvider, "--wsrep-cluster-name=test", "--wsrep-cluster-address="+address,
		"--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=rsync", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2")
}

// galeraPorts are the arguments by which several nodes run on one machine, with further
// options of the provider.
func galeraPorts(address string, options ...string) []string {
	ist, _ := freePort() // 0 is a failure that the server reports
	sst, _ := freePort() // else it is 4444 for all clusters of the machine
	options = append([]string{"gmcast.listen_addr=tcp://" + address, fmt.Sprintf("ist.recv_addr=127.0.0.1:%d", ist)}, options...)
	return []string{fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", sst), "--wsrep-provider-options=" + strings.Join(options, ";")}
}

// Rejoin starts a node again that was killed or stopped, and returns when it serves and has
// all that was written meanwhile. It asks the storage engine first how far the node has
// come: a killed one has not noted it, and would ask for the whole state.
func (g *Galera) Rejoin(ctx context.Context, i int) error {
	m := g.Nodes[i]
	position, err := m.recovered(ctx, galeraArguments(g.group, i, false))
	if err != nil {
		return fmt.Errorf("rejoin galera: %w", err)
	}
	m.opt.Extra = append(galeraArguments(g.group, i, false), "--wsrep-start-position="+position)
	if err := m.Restart(ctx); err != nil {
		return fmt.Errorf("rejoin galera at %s: %w", position, err)
	}
	return g.Await(ctx)
}

// recoveredPosition is how the server says how far a node has come.
var recoveredPosition = regexp.MustCompile(`WSREP: Recovered position:? *([0-9a-f-]+:-?[0-9]+)`)

// recovered returns how far a node that does not run has come.
func (m *MariaDB) recovered(ctx context.Context, extra []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, galeraReadyWithin)
	defer cancel()
	if err := os.Remove(m.socket + ".lock"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	m.opt.Extra = append(extra, "--wsrep-recover")
	cmd := exec.CommandContext(ctx, m.program, m.arguments()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: m.account.credential(), Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	found := recoveredPosition.FindSubmatch(out)
	if err != nil || found == nil {
		return "", fmt.Errorf("find out how far %s has come: %w: %s", m.Dir(), err, out[max(0, len(out)-2000):])
	}
	return string(found[1]), nil
}

// Await returns when every node serves in a cluster of all.
func (g *Galera) Await(ctx context.Context) error {
	for _, m := range g.Nodes {
		if err := g.await(ctx, m, len(g.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

// Return returns when a node that was stopped for a while, and goes on, is one of all again.
// One that the others have expelled may give up ("backend must be restarted"): it is started
// again then, as its operator would do, and restarted says what it had said.
func (g *Galera) Return(ctx context.Context, i int) (restarted string, err error) {
	patient, cancel := context.WithTimeout(ctx, galeraReturnWithin)
	defer cancel()
	if err = g.Await(patient); err == nil { // it may not know yet that it was expelled
		select {
		case <-time.After(galeraExpelledWithin):
		case <-ctx.Done():
		}
		err = g.Await(patient)
	}
	if err == nil || ctx.Err() != nil {
		return "", err
	}
	m := g.Nodes[i]
	restarted = fmt.Sprintf("%v; the end of its log:\n%s", err, child.Tail(m.LogPath()))
	if err := m.Kill(); err != nil {
		return restarted, err
	}
	return restarted, g.Rejoin(ctx, i)
}

// await returns when a node serves in a cluster of some size, and has all of its state.
func (g *Galera) await(ctx context.Context, m *MariaDB, size int) error {
	ctx, cancel := context.WithTimeout(ctx, galeraReadyWithin)
	defer cancel()
	want := fmt.Sprintf("wsrep_cluster_size %d wsrep_local_state %d wsrep_ready ON", size, galeraSynced)
	for {
		text, err := m.say(ctx, "SHOW STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_size', 'wsrep_local_state')")
		lines := slices.Sorted(strings.Lines(text + "\n"))
		text = strings.Join(strings.Fields(strings.Join(lines, "")), " ")
		if err == nil && text == want {
			return nil
		}
		if m.Current().Gone() {
			return fmt.Errorf("wait for node %s: it has ended", m.Addr())
		}
		select {
		case <-time.After(galeraLook):
		case <-ctx.Done():
			return fmt.Errorf("wait for node %s: %w; it says %q", m.Addr(), ctx.Err(), text)
		}
	}
}

// URL names all nodes and a database.
func (g *Galera) URL(db string) string {
	var all []string
	for _, m := range g.Nodes {
		all = append(all, m.Addr())
	}
	return "mysql://root@" + strings.Join(all, ",") + "/" + url.PathEscape(db)
}

// Close kills all nodes.
func (g *Galera) Close() error {
	var errs []error
	for _, m := range g.Nodes {
		errs = append(errs, m.Kill())
	}
	return errors.Join(errs...)
}
