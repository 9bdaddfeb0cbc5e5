package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/lib/child"
)

const (
	postgresRemedy = "run `make deps` (Debian and Ubuntu: package postgresql), or install PostgreSQL 12 or newer with your system's packages"

	// postgresReadyWithin bounds the time to the first accepted session,
	// recovery of a killed server's log included.
	postgresReadyWithin = 2 * time.Minute

	// postgresInstallWithin bounds initdb, which takes a second or two. It runs
	// once: other servers begin with a copy.
	postgresInstallWithin = 2 * time.Minute

	// postgresStopPatience is how long PostgreSQL may take to end after SIGINT.
	postgresStopPatience = time.Minute

	// postgresClientWithin bounds one statement of CreateDatabase.
	postgresClientWithin = busyWithin

	// postgresDialWithin bounds one look at the server.
	postgresDialWithin = 2 * time.Second

	// postgresOrphansWithin bounds how long the processes of a killed server
	// may take to be gone.
	postgresOrphansWithin = 10 * time.Second

	postgresUser = "postgres"
)

// postgresHomes is where packages put the programs that are outside the usual
// PATH: Debian and Ubuntu, the PostgreSQL project's own for Red Hat, SUSE.
var postgresHomes = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin"}

// PostgresOptions are what a private PostgreSQL is started with.
type PostgresOptions struct {
	// Dir holds the data directory data, the log postgres.log and, if its path
	// is short enough, the socket. It is made and filled if it does not exist
	// or is empty. Required.
	Dir string

	// Port on 127.0.0.1; 0 takes a free one.
	Port int

	// Extra are further arguments, such as "-c", "shared_buffers=1GB". They
	// come last, and so win.
	Extra []string

	from string // how a standby reaches its primary; empty: it is none
}

// Postgres is a private PostgreSQL server: durable as PostgreSQL is by default,
// 127.0.0.1 and a socket only, a superuser postgres without a password. Its
// methods may be called from several goroutines, but Stop and Restart not at
// the same time.
//
// Each session of PostgreSQL is a process of its own, in a process group of its
// own: Kill and Pause reach them one by one.
type Postgres struct {
	base
	opt       PostgresOptions
	bin       string // directory of the programs
	socketDir string
}

// StartPostgres starts a PostgreSQL, on a fresh directory after initdb, and
// returns when it accepts sessions. ctx bounds the start, not the server's
// life: that ends with Stop, with Kill or with this program.
//
// As root the server runs as user postgres, which is given Dir.
func StartPostgres(ctx context.Context, opt PostgresOptions) (*Postgres, error) {
	p := &Postgres{opt: opt}
	err := p.settle("postgres", "PostgresOptions.Dir", opt.Dir, opt.Port, postgresStopPatience, p.start)
	if err != nil {
		return nil, err
	}
	if p.bin, err = postgresBin(); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	if err := p.as(postgresUser, postgresRemedy); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	longest, home, err := child.SocketPath(p.Dir(), ".s.PGSQL.65535")
	if err != nil {
		return nil, fmt.Errorf("start postgres in %s: %w", p.Dir(), err)
	}
	p.socketDir, p.SocketHome = filepath.Dir(longest), home
	if err := p.first(ctx, "postgres", opt.Port == 0); err != nil {
		return nil, err
	}
	return p, nil
}

// postgresBin returns the directory that holds initdb and postgres, of the
// newest version if there are several.
func postgresBin() (string, error) {
	for _, pattern := range postgresHomes {
		homes, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.SortFunc(homes, func(a, b string) int { return postgresVersion(b) - postgresVersion(a) })
		for _, home := range homes {
			if _, err := exec.LookPath(filepath.Join(home, "initdb")); err == nil {
				return home, nil
			}
		}
	}
	path, err := child.Find(postgresRemedy, "initdb")
	return filepath.Dir(path), err
}

// postgresVersion reads the number in a path such as /usr/lib/postgresql/15/bin.
func postgresVersion(path string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(filepath.Base(filepath.Dir(path)), "abcdefghijklmnopqrstuvwxyz-"))
	return n
}

// start runs the server with the port and socket that p has.
func (p *Postgres) start(ctx context.Context) error {
	s := child.Spec{Program: filepath.Join(p.bin, "postgres"), Args: p.arguments(), Ending: syscall.SIGINT} // at SIGTERM it would wait for its sessions
	return p.Run(ctx, s, func(lock *os.File) error { return p.prepare(ctx, lock) }, func(server *child.Process) error {
		return p.awaitWithin(ctx, server, "session", postgresReadyWithin, func() (bool, error) { return admits(p.Socket()) })
	})
}

// prepare makes the directory usable: owner, way to it, an initialised
// cluster. initdb works beside the data directory, which appears whole.
func (p *Postgres) prepare(ctx context.Context, lock *os.File) error {
	if err := p.account.give(p.Dir(), p.SocketHome); err != nil {
		return err
	}
	if _, err := os.Stat(p.data()); err == nil {
		return nil
	}
	fresh := p.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if p.opt.from != "" {
		if err := p.copyFrom(ctx, lock, fresh); err != nil {
			return err
		}
		return os.Rename(fresh, p.data())
	}
	args := []string{"--username=" + postgresUser, "--auth=trust", "--encoding=UTF8", "--no-locale"}
	template, err := templateOf(filepath.Join(p.bin, "postgres"), args)
	if err != nil {
		return err
	}
	install := func() error {
		return p.install(ctx, lock, "initialise the cluster", filepath.Join(p.bin, "initdb"), append(args, "--pgdata="+fresh), postgresInstallWithin)
	}
	if err := filled(template, fresh, install); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(fresh, 0o700), p.account.own(fresh)); err != nil { // it refuses a directory that others can read
		return err
	}
	return os.Rename(fresh, p.data())
}

// arguments leave everything that concerns durability and speed as it is by
// default.
func (p *Postgres) arguments() []string {
	args := []string{
		"-D", p.data(),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "port=" + strconv.Itoa(p.port),
		"-c", "unix_socket_directories=" + p.socketDir,
		"-c", "logging_collector=off",
	}
	return append(args, p.opt.Extra...)
}

func (p *Postgres) data() string { return filepath.Join(p.Dir(), "data") }

// admits reports whether the server lets a session in. Connecting is not
// enough: it listens, and answers, while it still recovers.
func admits(socket string) (bool, error) {
	conn, err := child.DialSocket(socket, postgresDialWithin)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	const version3 = 196608
	body := "user\x00" + postgresUser + "\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	hello = append(binary.BigEndian.AppendUint32(hello, version3), body...)
	if _, err := conn.Write(hello); err != nil {
		return false, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1))
	if err != nil || len(answer) == 0 {
		return false, errors.Join(errors.New("ask for a session: no answer"), err)
	}
	if answer[0] != 'R' { // authentication
		return false, fmt.Errorf("ask for a session: the answer is %q, not yet R", answer)
	}
	_, err = conn.Write([]byte{'X', 0, 0, 0, 4})
	return err == nil, err
}

// Socket returns the path of the unix socket.
func (p *Postgres) Socket() string {
	return filepath.Join(p.socketDir, ".s.PGSQL."+strconv.Itoa(p.port))
}

// URL returns "postgres://postgres@127.0.0.1:5432/db".
func (p *Postgres) URL(db string) string {
	return "postgres://" + postgresUser + "@" + p.Addr() + "/" + url.PathEscape(db) + "?sslmode=disable"
}

// SocketURL returns "postgres://postgres@/db?host=/dir&port=5432".
func (p *Postgres) SocketURL(db string) string {
	return "postgres://" + postgresUser + "@/" + url.PathEscape(db) + "?host=" + url.QueryEscape(p.socketDir) + "&port=" + strconv.Itoa(p.port)
}

// CreateDatabase makes a database if it does not exist.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, postgresClientWithin)
	defer cancel()
	found, err := p.client(ctx, "SELECT 1 FROM pg_database WHERE datname = '"+strings.ReplaceAll(name, "'", "''")+"'")
	if err == nil && found == "" {
		_, err = p.client(ctx, `CREATE DATABASE "`+strings.ReplaceAll(name, `"`, `""`)+`"`)
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// client runs a statement through the server's own client.
func (p *Postgres) client(ctx context.Context, statement string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "psql"), "--no-psqlrc", "--no-align", "--tuples-only",
		"--host="+p.socketDir, "--port="+strconv.Itoa(p.port), "--username="+postgresUser, "--dbname=postgres", "--command="+statement)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, text)
	}
	return text, nil
}

// sessions returns the processes of the server beside its first one.
func (p *Postgres) sessions() ([]int, error) {
	pid := strconv.Itoa(p.Pid())
	b, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it is gone
	}
	if err != nil {
		return nil, fmt.Errorf("find the sessions of postgres: %w", err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(b)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("find the sessions of postgres: %w", err)
		}
		pids = append(pids, n)
	}
	return pids, nil
}

// signalSessions sends to the sessions; one that is gone is no error.
func (p *Postgres) signalSessions(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal session %d of postgres with %s: %w", pid, sig, err)
		}
	}
	return nil
}

// Kill ends the server and its sessions with SIGKILL and returns when they are
// gone. The first process is stopped before: else it would see its children
// die, and begin to recover. Its files stay: Restart starts it again on them.
func (p *Postgres) Kill() error {
	if err := p.base.Pause(); err != nil {
		if p.Current().Gone() {
			return nil
		}
		return err
	}
	pids, err := p.sessions()
	if err != nil {
		return err
	}
	if err := errors.Join(p.signalSessions(pids, syscall.SIGKILL), p.Server.Kill()); err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	limit := time.NewTimer(postgresOrphansWithin)
	defer limit.Stop()
	for slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil }) {
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("kill postgres: sessions of it are still there after %s", postgresOrphansWithin)
		}
	}
	return nil
}

// Pause stops the server and its sessions with SIGSTOP: connections stay open,
// nothing is answered.
func (p *Postgres) Pause() error {
	if err := p.base.Pause(); err != nil {
		return err
	}
	pids, err := p.sessions()
	if err != nil {
		return err
	}
	return p.signalSessions(pids, syscall.SIGSTOP)
}

// Continue lets a paused server go on.
func (p *Postgres) Continue() error {
	pids, err := p.sessions()
	if err != nil {
		return err
	}
	return errors.Join(p.signalSessions(pids, syscall.SIGCONT), p.base.Continue())
}
