package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/lib/child"
)

const (
	mariadbRemedy = "run `make deps` (Debian and Ubuntu: packages mariadb-server and mariadb-client), or install MariaDB 10.6 or newer with your system's packages"

	// mariadbReadyWithin bounds the time to the first greeting, recovery of a
	// killed server's log included.
	mariadbReadyWithin = 2 * time.Minute

	// mariadbInstallWithin bounds the making of the first data directory, which
	// takes half a second on an idle machine. The others are copies of it.
	mariadbInstallWithin = 2 * time.Minute

	// mariadbStopPatience is how long MariaDB may take to end after SIGTERM.
	mariadbStopPatience = time.Minute

	// mariadbClientWithin bounds one call of the client.
	mariadbClientWithin = busyWithin

	// mariadbDialWithin bounds one look at the server.
	mariadbDialWithin = 2 * time.Second
)

// MariaDBOptions are what a private MariaDB is started with.
type MariaDBOptions struct {
	// Dir is the data directory, which also holds the log mariadb.log and, if
	// its path is short enough, the socket. It is made and filled if it does
	// not exist or is empty. Required.
	Dir string

	// Port on 127.0.0.1; 0 takes a free one.
	Port int

	// File is an operator's configuration file outside Dir, which is read before the
	// arguments; empty: none. What the arguments say of places, address and text wins.
	File string

	// Extra are further arguments, such as "--innodb-buffer-pool-size=1G".
	// They come last, and so win.
	Extra []string
}

// MariaDB is a private MariaDB server: durable as MariaDB is by default,
// 127.0.0.1 and a socket only, a user root without a password. Its methods may
// be called from several goroutines, but Stop and Restart not at the same time.
type MariaDB struct {
	base
	opt       MariaDBOptions
	program   string
	installer string
	client    string
	socket    string
}

// StartMariaDB starts a MariaDB, on a fresh directory after installing its
// system tables, and returns when it greets. ctx bounds the start, not the
// server's life: that ends with Stop, with Kill or with this program.
//
// As root the server runs as user mysql, which is given Dir.
func StartMariaDB(ctx context.Context, opt MariaDBOptions) (*MariaDB, error) {
	m := &MariaDB{opt: opt}
	err := m.settle("mariadb", "MariaDBOptions.Dir", opt.Dir, opt.Port, mariadbStopPatience, m.start)
	if err != nil {
		return nil, err
	}
	if err := m.findPrograms(); err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	if err := m.as("mysql", mariadbRemedy); err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	if m.socket, m.SocketHome, err = child.SocketPath(m.Dir(), "mariadb.sock"); err != nil {
		return nil, fmt.Errorf("start mariadb in %s: %w", m.Dir(), err)
	}
	if err := m.first(ctx, "mariadb", opt.Port == 0); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *MariaDB) findPrograms() (err error) {
	if m.program, err = child.Find(mariadbRemedy, "mariadbd", "mysqld"); err != nil {
		return err
	}
	if m.installer, err = child.Find(mariadbRemedy, "mariadb-install-db", "mysql_install_db"); err != nil {
		return err
	}
	m.client, err = child.Find(mariadbRemedy, "mariadb", "mysql")
	return err
}

// start runs the server with the port and socket that m has.
func (m *MariaDB) start(ctx context.Context) error {
	return m.Run(ctx, child.Spec{Program: m.program, Args: m.arguments()}, func(lock *os.File) error { return m.prepare(ctx, lock) }, func(p *child.Process) error {
		return m.awaitWithin(ctx, p, "greeting", mariadbReadyWithin, func() (bool, error) { return greets(m.socket) })
	})
}

// mariadbTemp is where a server has its temporary tables, in its data
// directory. A server that starts removes such tables. In the system's
// directory it would remove those of other servers too.
const mariadbTemp = "server.tmp"

func (m *MariaDB) tempDir() string { return filepath.Join(m.Dir(), mariadbTemp) }

// prepare makes the data directory usable: system tables, owner, way to it.
func (m *MariaDB) prepare(ctx context.Context, lock *os.File) error {
	if err := m.account.give(m.Dir(), m.SocketHome, m.tempDir()); err != nil {
		return err
	}
	// MariaDB notes its process id beside the socket and refuses to start while
	// a process of that number lives. After a kill that may be any process. We
	// hold the directory's lock, so the socket is unused.
	if err := os.Remove(m.socket + ".lock"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return m.fill(ctx, lock)
}

// fill installs the system tables, once: a marker written afterwards tells a
// finished installation from one that was killed half-way, which is removed.
func (m *MariaDB) fill(ctx context.Context, lock *os.File) error {
	marker := filepath.Join(m.Dir(), "server.installed")
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	if err := m.clear(); err != nil {
		return err
	}
	args := []string{"--no-defaults", "--ignore-db-dirs=" + mariadbTemp, "--auth-root-authentication-method=normal", "--skip-test-db"}
	template, err := templateOf(m.program, args)
	if err != nil {
		return err
	}
	install := func() error {
		return m.install(ctx, lock, "install system tables", m.installer, append(args, "--datadir="+m.Dir(), "--tmpdir="+m.tempDir()), mariadbInstallWithin)
	}
	if err := filled(template, m.Dir(), install, append(slices.Collect(maps.Keys(m.ownEntries())), mariadbInstalling)...); err != nil {
		return err
	}
	if err := m.account.own(m.Dir()); err != nil {
		return err
	}
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mark the installation as finished: %w", err)
	}
	return f.Close()
}

// mariadbInstalling marks a directory that is being filled.
const mariadbInstalling = "server.installing"

// ownEntries are what the directory has before it is filled.
func (m *MariaDB) ownEntries() map[string]bool {
	return map[string]bool{child.LockName: true, filepath.Base(m.LogPath()): true, mariadbTemp: true}
}

// clear removes what a half-done installation left. It refuses a directory with
// foreign data: only directories of our own making are cleared.
func (m *MariaDB) clear() error {
	entries, err := os.ReadDir(m.Dir())
	if err != nil {
		return err
	}
	own := m.ownEntries()
	begun := filepath.Join(m.Dir(), mariadbInstalling)
	_, err = os.Stat(begun)
	ours := err == nil
	for _, e := range entries {
		if own[e.Name()] {
			continue
		}
		if !ours {
			return fmt.Errorf("%s holds %s, and was not made by this program: use an empty directory", m.Dir(), e.Name())
		}
		if e.Name() == filepath.Base(begun) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.Dir(), e.Name())); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(begun, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// arguments are the whole configuration: MariaDB reads no file but File. Character set,
// collation and bind address are those of Debian's packaged configuration, so
// that a test meets what an operator has.
func (m *MariaDB) arguments() []string {
	file := "--no-defaults"
	if m.opt.File != "" {
		file = "--defaults-file=" + m.opt.File
	}
	args := []string{
		file,
		"--datadir=" + m.Dir(),
		"--socket=" + m.socket,
		"--pid-file=" + filepath.Join(m.Dir(), "mariadb.pid"),
		"--tmpdir=" + m.tempDir(),
		"--ignore-db-dirs=" + mariadbTemp,
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(m.port),
		"--character-set-server=utf8mb4",
		"--collation-server=utf8mb4_general_ci",
	}
	return append(args, m.opt.Extra...)
}

// greets reports whether the server sends its greeting. Connecting is not
// enough: the socket listens before anybody accepts.
func greets(socket string) (bool, error) {
	conn, err := child.DialSocket(socket, mariadbDialWithin)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	var head [5]byte // length, sequence, protocol version
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return false, fmt.Errorf("read greeting: %w", err)
	}
	const protocolVersion = 10
	if head[4] != protocolVersion {
		return false, fmt.Errorf("read greeting: first byte is %d, want %d", head[4], protocolVersion)
	}
	return true, nil
}

// Socket returns the path of the unix socket.
func (m *MariaDB) Socket() string { return m.socket }

// URL returns "mysql://root@127.0.0.1:3306/db"; db may be empty.
func (m *MariaDB) URL(db string) string {
	return "mysql://root@" + m.Addr() + "/" + url.PathEscape(db)
}

// SocketURL returns "mysql://root@/db?socket=/dir/mariadb.sock".
func (m *MariaDB) SocketURL(db string) string {
	return "mysql://root@/" + url.PathEscape(db) + "?socket=" + url.QueryEscape(m.socket)
}

// DSN returns "root@unix(/dir/mariadb.sock)/db", the form go-sql-driver/mysql
// reads. Parameters may be added with "?name=value&name=value".
func (m *MariaDB) DSN(db string) string {
	return "root@unix(" + m.socket + ")/" + url.PathEscape(db)
}

// CreateDatabase makes a database if it does not exist, with the server's
// character set and collation.
func (m *MariaDB) CreateDatabase(ctx context.Context, name string) error {
	if _, err := m.say(ctx, "CREATE DATABASE IF NOT EXISTS `"+strings.ReplaceAll(name, "`", "``")+"`"); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// say runs statements through the server's own client, and returns what it prints.
func (m *MariaDB) say(ctx context.Context, statements string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mariadbClientWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, m.client, "--no-defaults", "--socket="+m.socket, "--user=root", "--skip-column-names", "--batch", "--execute="+statements).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", m.client, err, text)
	}
	return text, nil
}
