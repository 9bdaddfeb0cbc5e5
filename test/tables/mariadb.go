package tables

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// ready is the name of the database that others are copies of.
const ready = "ready_tables"

// models are the tables of the migrated database of each server, with whether they have rows.
var models struct {
	sync.Mutex
	of map[*servers.MariaDB]map[string]bool
}

// MakeMariaDB makes a database with empty tables on a server. They are made as they are
// after all migrations, and not changed again and again on the way there.
func MakeMariaDB(t testing.TB, server *servers.MariaDB, name string) {
	t.Helper()
	if err := makeMariaDB(t.Context(), server, name); err != nil {
		t.Fatal(err)
	}
}

func makeMariaDB(ctx context.Context, server *servers.MariaDB, name string) error {
	model, err := modelOf(ctx, server)
	if err != nil {
		return err
	}
	if err := server.CreateDatabase(ctx, name); err != nil {
		return err
	}
	db, err := sql.Open("mysql", server.DSN(name))
	if err != nil {
		return err
	}
	defer db.Close()
	for table, rows := range model {
		statements := []string{fmt.Sprintf("CREATE TABLE %s LIKE %s.%s", table, ready, table)}
		if rows {
			statements = append(statements, fmt.Sprintf("INSERT INTO %s SELECT * FROM %s.%s", table, ready, table))
		}
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// modelOf migrates the database that others of a server are copies of, once.
func modelOf(ctx context.Context, server *servers.MariaDB) (map[string]bool, error) {
	models.Lock()
	defer models.Unlock()
	if known := models.of[server]; known != nil {
		return known, nil
	}
	if err := server.CreateDatabase(ctx, ready); err != nil {
		return nil, err
	}
	s, err := sqlstore.Open(ctx, server.SocketURL(ready), sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	err = s.Migrate(ctx)
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	model, err := readModel(ctx, server)
	if err != nil {
		return nil, err
	}
	if models.of == nil {
		models.of = make(map[*servers.MariaDB]map[string]bool)
	}
	models.of[server] = model
	return model, nil
}

// readModel returns the tables of the database ready, and whether they have rows.
func readModel(ctx context.Context, server *servers.MariaDB) (map[string]bool, error) {
	db, err := sql.Open("mysql", server.DSN(ready))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	model := make(map[string]bool)
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return nil, err
		}
		model[table] = false
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for table := range model {
		var any bool
		if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&any); err != nil {
			return nil, err
		}
		model[table] = any
	}
	return model, nil
}
