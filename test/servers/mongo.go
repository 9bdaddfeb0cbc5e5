package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"sluice/lib/child"
)

// mongoProgram is where scripts/install-deps.sh --test puts the program of
// ferretdb/, below the user's cache. A change of that program needs another
// number behind FerretDB's version, here and in the script.
const mongoProgram = "sluice/ferretdb-1.24.2-1/ferretdb"

const (
	mongoRemedy = "run `make deps-test`, which builds it"

	mongoAnswerWithin  = busyWithin
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
	base
	program string
	socket  string
}

// StartMongo starts one on a directory, which is made if it does not exist, and
// returns when it takes connections. ctx bounds the start, not its life.
func StartMongo(ctx context.Context, dir string) (*Mongo, error) {
	m := &Mongo{}
	if err := m.settle("ferretdb", "its directory", dir, 0, mongoStopPatience, m.start); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("start ferretdb: find the user's cache: %w", err)
	}
	if m.program, err = child.Find(mongoRemedy, filepath.Join(cache, filepath.FromSlash(mongoProgram))); err != nil {
		return nil, fmt.Errorf("start ferretdb: %w", err)
	}
	if m.socket, m.SocketHome, err = child.SocketPath(m.Dir(), mongoSocketName); err != nil {
		return nil, fmt.Errorf("start ferretdb in %s: %w", m.Dir(), err)
	}
	if err := m.first(ctx, "ferretdb", false); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Mongo) start(ctx context.Context) error {
	files := filepath.Join(m.Dir(), mongoFilesName)
	s := child.Spec{Program: m.program, Args: []string{"-dir", files, "-socket", m.socket}}
	return m.Run(ctx, s, func(*os.File) error { return os.MkdirAll(files, mongoDirectoryMode) }, func(p *child.Process) error {
		return m.awaitWithin(ctx, p, "answer", mongoAnswerWithin, func() (bool, error) {
			conn, err := child.DialSocket(m.socket, mongoDialWithin)
			if err != nil {
				return false, err
			}
			return true, conn.Close()
		})
	})
}

// URL returns where it listens, for a database, as MongoDB's drivers read it.
func (m *Mongo) URL(database string) string {
	return "mongodb://" + url.PathEscape(m.socket) + "/" + url.PathEscape(database)
}
