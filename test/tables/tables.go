// Package tables has databases with empty tables, for tests. The tables are made
// once a process, or once a server, since each migration costs what many tests do. Each
// database is a copy.
package tables

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice/store/sqlstore"
)

// empty is the file of a database that was migrated and closed.
var empty = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "sluice-tables-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "empty.db")
	s, err := sqlstore.Open(context.Background(), "sqlite:"+path, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	err = s.Migrate(context.Background())
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Make makes a database in a file that does not exist yet.
func Make(t testing.TB, path string) {
	t.Helper()
	file, err := empty()
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Open returns a store on a database of its own. It is closed when the test ends.
func Open(t testing.TB, options sqlstore.Options) *sqlstore.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	Make(t, path)
	s, err := sqlstore.Open(t.Context(), "sqlite:"+path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
