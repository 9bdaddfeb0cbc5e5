package baseline

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// idleConns keeps the connections of the ten workers from being made anew.
const idleConns = 16

// OpenMySQL opens mysql://USER:PASSWORD@HOST:PORT/DB, where HOST:PORT may be
// unix(/SOCKET), as sqlstore has it.
func OpenMySQL(address string) (*sql.DB, error) {
	const want = "want mysql://USER:PASSWORD@HOST:PORT/DB" // no error shows the password
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil, errors.New("read database url: " + want)
	}
	if !strings.Contains(rest, ")/") {
		u, err := url.Parse(address)
		if err != nil || u.User == nil {
			return nil, errors.New("read database url: " + want)
		}
		password, _ := u.User.Password()
		rest = u.User.Username() + ":" + password + "@tcp(" + u.Host + ")" + u.Path
	}
	cfg, err := mysql.ParseDSN(rest)
	if err != nil || cfg.DBName == "" {
		return nil, errors.New("read database url: " + want)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(idleConns)
	return db, nil
}

// OpenPostgres opens postgres://USER:PASSWORD@HOST:PORT/DB.
func OpenPostgres(address string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("read database url: want postgres://USER:PASSWORD@HOST:PORT/DB") // no error shows the password
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.RuntimeParams["timezone"] = "UTC"
	return stdlib.OpenDB(*cfg), nil
}

// SQLitePragmas are those with which the program opens its database.
const SQLitePragmas = "journal_mode(WAL), synchronous(FULL), wal_autocheckpoint(16384)"

// OpenSQLite opens or creates a file.
func OpenSQLite(file string) (*sql.DB, error) {
	params := url.Values{"_pragma": strings.Split(SQLitePragmas, ", ")}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+params.Encode())
	if err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	return db, nil
}
