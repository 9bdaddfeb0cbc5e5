package chaos

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice"
)

// lastRelease is the file that names the commit of the last release, from the
// root of the repository.
const lastRelease = "scripts/last-release"

// noRelease stands in it while there is no release. Then the present tree is
// the older version. The newer one is a build of it that pretends to be the
// next version.
const noRelease = "none"

// versions builds the older and the newer program.
func versions(t *testing.T) (older, newer string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", lastRelease))
	if err != nil {
		t.Fatal(err)
	}
	commit := ""
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			commit = line
		}
	}
	switch commit {
	case "":
		t.Fatalf("%s names no commit, and does not say %q", lastRelease, noRelease)
	case noRelease:
		newer = filepath.Join(t.TempDir(), "next")
		build(t, ".", newer, "-tags", "pretend_next")
		return binary, newer
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "-C", "../..", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Fatalf("%s names the commit %s, which is not here: %v: %s; a shallow clone lacks it: git fetch --unshallow", lastRelease, commit, err, out)
	}
	archive := exec.Command("git", "archive", "--format=tar", commit)
	archive.Dir = ".."
	files, err := archive.Output()
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(files)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", commit, err, out)
	}
	older = filepath.Join(t.TempDir(), "older")
	build(t, dir, older)
	return older, binary
}

func build(t *testing.T, dir, to string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build"}, args...), "-o", to, "sluice/cmd/sluice")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, out)
	}
}

// upgrading is a kind of no fault: processes of two versions.
var upgrading = kind{name: "upgrade"}

// TestUpgrade replaces three processes by those of the next version, one after the
// other, under load. As long as one of the older ones lives, no process writes
// forms that it does not read. One of them sleeps while the last other one
// goes. When it wakes up it meets forms that it does not read, and leaves them
// to the others. After that the older program does not start any more.
// Everything is stored once, and nothing becomes a dead letter.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	older, newer := versions(t)
	pretends := older == binary
	for _, base := range []string{onMariaDB, onPostgres} {
		t.Run(base, func(t *testing.T) {
			p, random := planOf(1, *onlyKind)
			p.kind, p.processes, p.redis, p.base, p.slow = upgrading, 3, map[string]string{onPostgres: onCluster, onMariaDB: onOne}[base], base, false
			r := newRound(&recorder{T: t}, newRig(t, 0), p, random)
			for _, p := range r.peers {
				r.startOf(older, p, nil)
			}
			r.allReady()
			if pretends {
				r.refuses(newer, []string{"PRETEND_BREAKING=1"}, "stop them first")
				r.leavesSchema(older, newer)
			}
			r.load = startLoad(r)
			r.load.progress()
			for i, p := range r.peers[:2] {
				p.signal(syscall.SIGTERM)
				<-p.exited
				r.startOf(newer, p, nil)
				r.load.progress()
				if forms := r.formsInUse(); pretends && strings.HasPrefix(forms, strconv.Itoa(int(sluice.ItemNext))+".") {
					t.Errorf("an older process lives, and %d newer ones: forms %s are in use", i+1, forms)
				}
			}
			r.sleepThrough(pretends)
			r.load.progress()
			if pretends {
				r.refuses(older, nil, "a newer program has been here")
			}
			last := r.peers[2]
			last.signal(syscall.SIGTERM)
			<-last.exited
			r.startOf(newer, last, nil)
			r.load.progress()
			r.load.finish()
			r.allReady()
			r.checkAll()
		})
	}
}

// sleepThrough has the last older process sleep until the others take it for dead
// and write what it does not read, and wakes it up.
func (r *round) sleepThrough(pretends bool) {
	r.t.Helper()
	asleep := r.peers[2]
	asleep.signal(syscall.SIGSTOP)
	r.await("it is stopped", asleep.stopped)
	at := asleep.at
	r.load.mu.Lock()
	asleep.at = r.peers[0].at // it is never asked
	r.load.mu.Unlock()
	if pretends {
		before := r.formsInUse()
		r.await("the new forms are in use", func() bool { return r.formsInUse() != before })
	}
	r.load.progress()
	asleep.signal(continued)
	if pretends {
		r.await("it gives up its leases", func() bool { return bytes.Contains(asleep.logged(r.t.T), []byte("gives up its leases")) })
	}
	r.load.mu.Lock()
	asleep.at = at // it still takes in
	r.load.mu.Unlock()
}

// formsInUse is what is noted in Redis.
func (r *round) formsInUse() string {
	r.t.Helper()
	words, err := r.client.Do(r.ctx, r.client.B().Hmget().Key("sluice:{members}:forms").Field("item", "update", "scripts").Build()).ToArray()
	r.do(err)
	var all []string
	for _, w := range words {
		text, _ := w.ToString() // nil: nothing yet
		all = append(all, text)
	}
	return strings.Join(all, ".")
}

// startOf starts a process of a version.
func (r *round) startOf(program string, p *peer, environ []string) {
	r.t.Helper()
	p.program = startBinary(r.t.T, program, r.dir, p.config, append(os.Environ(), environ...), filepath.Base(program)+" "+filepath.Base(p.config))
	r.listens(p)
}

// leavesSchema wants commands of a newer program not to raise the schema beside older
// processes that could not use it after that.
func (r *round) leavesSchema(older, newer string) {
	r.t.Helper()
	command := func(program string, args ...string) (string, error) {
		cmd := exec.Command(program, append(args, "--config", r.peers[0].config)...)
		cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "PRETEND_BREAKING=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	file := filepath.Join(r.dir, "before.tar")
	if out, err := command(older, "backup", file); err != nil {
		r.t.Fatalf("backup: %v: %s", err, out)
	}
	for _, c := range []struct {
		why  string
		args []string
	}{
		{"migrate it", []string{"key", "create", "--name", "newer"}},
		{"stop them all first", []string{"restore", "--replace", file}},
	} {
		if out, err := command(newer, c.args...); err == nil || !strings.Contains(out, c.why) {
			r.t.Errorf("sluice %s of a newer program beside older ones: %v: %s; want %q", c.args[0], err, out, c.why)
		}
	}
	if out, err := command(older, "key", "list"); err != nil {
		r.t.Errorf("the older program cannot use the schema any more: %v: %s", err, out)
	}
}

// refuses wants a program not to start, and to say why.
func (r *round) refuses(program string, environ []string, why string) {
	r.t.Helper()
	p := startBinary(r.t.T, program, r.dir, r.peers[0].config, append(os.Environ(), environ...), "refused")
	select {
	case <-p.exited:
	case <-time.After(settleWithin):
		r.t.Errorf("%s does not end by itself, want: %s", program, why)
		p.kill()
	}
	if text := p.logged(r.t.T); p.cmd.ProcessState.Success() || !bytes.Contains(text, []byte(why)) {
		r.t.Errorf("%s says %s; want %q", program, lastBytes(text, 500), why)
	}
}
