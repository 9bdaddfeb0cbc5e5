package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// mongoProgram is where scripts/install-deps.sh --test puts the program of
// ferretdb/, below the user's cache. A change of that program needs another
// number behind FerretDB's version, here and in the script.
const mongoProgram = "sluice/ferretdb-1.24.2-1/ferretdb"

const (
	mongoRemedy = "run `make deps-test`, which builds it"

	mongoAnswerWithin  = 20 * time.Second
	mongoStopPatience  = 10 * time.Second
	mongoDialWithin    = time.Second
	mongoSocketName    = "mongo.sock"
	mongoFilesName     = "files"
	mongoDirectoryMode = 0o700
)

// Mongo is a private server that speaks MongoDB's protocol: FerretDB, since
// MongoDB itself is in no package list. It is slow, and knows no time-series
// collections, no TTL, no pipelines in updates and no transactions. Its methods
// may be called from several goroutines, but Stop and Restart not at the same
// time.
type Mongo struct {
	child
	dir        string
	program    string
	socket     string
	socketHome string // private directory of the socket, or empty
}

// StartMongo starts one on a directory, which is made if it does not exist, and
// returns when it takes connections. ctx bounds the start, not its life.
func StartMongo(ctx context.Context, dir string) (*Mongo, error) {
	if dir == "" {
		return nil, errors.New("start ferretdb: name a directory for its data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("start ferretdb: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("start ferretdb: find the user's cache: %w", err)
	}
	m := &Mongo{dir: dir}
	if m.program, err = find(mongoRemedy, filepath.Join(cache, filepath.FromSlash(mongoProgram))); err != nil {
		return nil, fmt.Errorf("start ferretdb: %w", err)
	}
	if m.socket, m.socketHome, err = socketPath(dir, mongoSocketName); err != nil {
		return nil, fmt.Errorf("start ferretdb in %s: %w", dir, err)
	}
	if err := m.start(ctx); err != nil {
		m.removeSocketHome()
		return nil, err
	}
	return m, nil
}

func (m *Mongo) start(ctx context.Context) error {
	lock, err := lockDir(ctx, m.dir)
	if err != nil {
		return fmt.Errorf("start ferretdb in %s: %w", m.dir, err)
	}
	defer lock.Close() // the server holds it now, or no process
	files := filepath.Join(m.dir, mongoFilesName)
	if err := os.MkdirAll(files, mongoDirectoryMode); err != nil {
		return fmt.Errorf("start ferretdb: make directory: %w", err)
	}
	log := filepath.Join(m.dir, "ferretdb.log")
	p, err := start("ferretdb", spec{
		program: m.program, args: []string{"-dir", files, "-socket", m.socket},
		dir: m.dir, logPath: log, held: []*os.File{lock},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mongoAnswerWithin, fmt.Errorf("no answer within %s", mongoAnswerWithin))
	defer cancel()
	err = p.await(ctx, log, func() (bool, error) {
		conn, err := net.DialTimeout("unix", m.socket, mongoDialWithin)
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
	if err != nil {
		return errors.Join(err, p.kill())
	}
	m.set(p)
	return nil
}

// URL returns where it listens, for a database, as MongoDB's drivers read it.
func (m *Mongo) URL(database string) string {
	return "mongodb://" + url.PathEscape(m.socket) + "/" + url.PathEscape(database)
}

// Stop ends the server, and returns when it is gone. Stopping one that is gone
// is no error.
func (m *Mongo) Stop(ctx context.Context) error {
	err := m.current().stop(ctx, mongoStopPatience)
	m.removeSocketHome()
	return err
}

// Restart starts a stopped or killed server again, on the same files and
// socket. One that still runs is stopped first.
func (m *Mongo) Restart(ctx context.Context) error {
	if err := m.current().stop(ctx, mongoStopPatience); err != nil {
		return fmt.Errorf("restart ferretdb: %w", err)
	}
	if m.socketHome != "" {
		if err := os.MkdirAll(m.socketHome, mongoDirectoryMode); err != nil {
			return fmt.Errorf("restart ferretdb: %w", err)
		}
	}
	return m.start(ctx)
}

func (m *Mongo) removeSocketHome() {
	if m.socketHome != "" {
		os.RemoveAll(m.socketHome)
	}
}
