package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLite has one table; what is old is deleted from it in pieces.
func (plainSQL) spanQuery() string  { return "" }
func (plainSQL) spanPrefix() string { return "" }
func (plainSQL) lockSpans(context.Context, *Store, *sql.Conn) (func(), error) {
	return nil, nil
}
func (plainSQL) addSpans(context.Context, *sql.Conn, []eventSpan) error { return nil }
func (plainSQL) dropSpan(context.Context, *sql.Conn, eventSpan) error   { return nil }
func (d *mysqlDialect) spanQuery() string                               { return query(d, "event_spans") }
func (d *mysqlDialect) spanPrefix() string                              { return "p" }
func (d *postgresDialect) spanQuery() string                            { return query(d, "event_spans") }
func (d *postgresDialect) spanPrefix() string                           { return "events_" }

func (d *mysqlDialect) lockSpans(ctx context.Context, s *Store, conn *sql.Conn) (func(), error) {
	n := strconv.Itoa(retentionWaitSeconds)
	if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = "+n+", innodb_lock_wait_timeout = "+n); err != nil {
		return nil, fmt.Errorf("limit session: %w", err)
	}
	lock, err := d.takeRowLock(ctx, s.small, daysLock, 0)
	if err != nil || lock == nil {
		return nil, err
	}
	return lock.release, nil
}

func (d *mysqlDialect) addSpans(ctx context.Context, conn *sql.Conn, spans []eventSpan) error {
	var b strings.Builder
	b.WriteString("ALTER TABLE events REORGANIZE PARTITION later INTO (")
	for _, s := range spans {
		fmt.Fprintf(&b, "PARTITION %s VALUES LESS THAN ('%s'), ", mysqlQuote(s.name), s.end.Format(dateLayout))
	}
	b.WriteString("PARTITION later VALUES LESS THAN (MAXVALUE))")
	_, err := conn.ExecContext(ctx, b.String())
	return err
}

func (d *mysqlDialect) dropSpan(ctx context.Context, conn *sql.Conn, span eventSpan) error {
	_, err := conn.ExecContext(ctx, "ALTER TABLE events DROP PARTITION "+mysqlQuote(span.name))
	return err
}

// lockSpans of PostgreSQL takes a lock that ends with its connection.
func (d *postgresDialect) lockSpans(ctx context.Context, _ *Store, conn *sql.Conn) (func(), error) {
	if _, err := conn.ExecContext(ctx, "SET lock_timeout = '"+strconv.Itoa(retentionWaitSeconds)+"s'"); err != nil {
		return nil, fmt.Errorf("limit session: %w", err)
	}
	var got bool
	if err := conn.QueryRowContext(ctx, query(d, "keep_lock")).Scan(&got); err != nil || !got {
		return nil, err
	}
	return func() {}, nil
}

// addSpans attaches tables: unlike CREATE TABLE ... PARTITION OF, that lets
// others write to events meanwhile. Several statements of one message are one
// transaction. What the new one takes of events_later goes over before: the
// server refuses a partition of which the default one has rows.
func (d *postgresDialect) addSpans(ctx context.Context, conn *sql.Conn, spans []eventSpan) error {
	return rawPostgres(conn, func(pg *pgconn.PgConn) error {
		for _, s := range spans {
			values := strings.NewReplacer("$NAME", postgresQuote(s.name), "$FROM", s.begin.Format(dateLayout), "$TO", s.end.Format(dateLayout))
			if _, err := execPostgres(ctx, pg, values.Replace(query(d, "span_add"))); err != nil {
				return fmt.Errorf("add %s: %w", s.name, err)
			}
		}
		return nil
	})
}

func (d *postgresDialect) dropSpan(ctx context.Context, conn *sql.Conn, span eventSpan) error {
	_, err := conn.ExecContext(ctx, "DROP TABLE "+postgresQuote(span.name))
	return err
}
