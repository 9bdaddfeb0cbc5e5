package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// standbyWithin bounds the time until a replica has all that its primary has.
	standbyWithin = busyWithin
	standbyLook   = 50 * time.Millisecond
)

// StartStandby starts a PostgreSQL that follows another one, which it reaches at an
// address: the primary's, or that of a proxy before it. It returns when it has all
// that the primary has. Promote ends it.
func StartStandby(ctx context.Context, opt PostgresOptions, primary *Postgres, address string) (*Postgres, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("start a standby: %w", err)
	}
	opt.from = fmt.Sprintf("host=%s port=%s user=%s", host, port, postgresUser)
	p, err := StartPostgres(ctx, opt)
	if err != nil {
		return nil, err
	}
	const behind = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn = pg_current_wal_lsn()"
	if err := awaitText(ctx, "1", func(ctx context.Context) (string, error) { return primary.client(ctx, behind) }); err != nil {
		return nil, errors.Join(fmt.Errorf("start a standby: %w", err), p.Kill())
	}
	return p, nil
}

// copyFrom fills a fresh directory with what a primary has, and how to follow it.
func (p *Postgres) copyFrom(ctx context.Context, lock *os.File, fresh string) error {
	args := []string{"--pgdata=" + fresh, "--dbname=" + p.opt.from, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"}
	return p.install(ctx, lock, "copy the primary", filepath.Join(p.bin, "pg_basebackup"), args, postgresInstallWithin)
}

// Promote makes a standby a primary, with what it has received, and returns when it takes
// writes.
func (p *Postgres) Promote(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, standbyWithin)
	defer cancel()
	switch text, err := p.client(ctx, "SELECT pg_promote(true, 60)"); {
	case err != nil:
		return fmt.Errorf("promote the standby: %w", err)
	case text != "t":
		return fmt.Errorf("promote the standby: the server says %s", text)
	}
	return nil
}

// ReplicaArguments are those of a MariaDB that is a primary or a replica, by a number of
// its own from 1.
func ReplicaArguments(number int) []string {
	return []string{"--server-id=" + strconv.Itoa(number), "--log-bin=binlog", "--log-slave-updates", "--binlog-format=ROW"}
}

// Follow makes a fresh server a replica of another, which it reaches at an address, and
// returns when it has all that the other one has. Both run with ReplicaArguments.
func (m *MariaDB) Follow(ctx context.Context, primary *MariaDB, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("follow a primary: %w", err)
	}
	_, err = m.say(ctx, "SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST = '"+host+"', MASTER_PORT = "+port+", MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE")
	if err != nil {
		return fmt.Errorf("follow %s: %w", address, err)
	}
	has, err := primary.say(ctx, "SELECT @@gtid_binlog_pos")
	if err == nil {
		err = awaitText(ctx, has, func(ctx context.Context) (string, error) { return m.say(ctx, "SELECT @@gtid_slave_pos") })
	}
	if err != nil {
		return fmt.Errorf("follow %s: %w", address, err)
	}
	return nil
}

// Promote makes a replica a primary, with what it has received, and returns when it takes
// writes.
func (m *MariaDB) Promote(ctx context.Context) error {
	// The thread that applies has to come to the end of what was received first.
	if _, err := m.say(ctx, "STOP SLAVE IO_THREAD"); err != nil {
		return fmt.Errorf("promote the replica: %w", err)
	}
	err := awaitText(ctx, "1", func(ctx context.Context) (string, error) {
		status, err := m.say(ctx, "SHOW SLAVE STATUS")
		if strings.Contains(status, "Slave has read all relay log") {
			status = "1"
		}
		return status, err
	})
	if err == nil {
		_, err = m.say(ctx, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")
	}
	if err != nil {
		return fmt.Errorf("promote the replica: %w", err)
	}
	return nil
}

// awaitText waits until a server says something.
func awaitText(ctx context.Context, want string, ask func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, standbyWithin)
	defer cancel()
	for {
		text, err := ask(ctx)
		if err == nil && text == want {
			return nil
		}
		select {
		case <-time.After(standbyLook):
		case <-ctx.Done():
			return fmt.Errorf("wait until the server says %q: %w; it says %q (%v)", want, ctx.Err(), text, err)
		}
	}
}
