package sqlstore

import (
	"context"
	"database/sql/driver"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresServers is the server, or the servers, of a URL.
type postgresServers struct {
	cfg   *pgx.ConnConfig // of all
	names []string
	each  []*pgx.ConnConfig // of each alone, with TLS and without
	found *foundHost        // nil: the driver chooses
}

// postgresServersOf reads a URL.
func postgresServersOf(address string) (*postgresServers, error) {
	cfg, err := postgresConfig(address)
	if err != nil {
		return nil, err
	}
	s := &postgresServers{cfg: cfg}
	for _, f := range append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...) {
		name := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if n := slices.Index(s.names, name); n >= 0 {
			s.each[n].Fallbacks = append(s.each[n].Fallbacks, f)
			continue
		}
		one := cfg.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		s.names, s.each = append(s.names, name), append(s.each, one)
	}
	if len(s.names) > 1 && wantsWrites(address) {
		s.found = &foundHost{every: hostsLookEvery}
	}
	return s, nil
}

// wantsWrites reports whether a URL of several hosts means the one that takes writes. With
// another target_session_attrs the driver looks at all of them each time.
func wantsWrites(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	wants, said := u.Query()["target_session_attrs"]
	return !said && strings.Contains(u.Host, ",") || said && (wants[0] == "read-write" || wants[0] == "primary")
}

// connector returns what connects. Its configuration refuses a server that takes no writes.
// A connection that was idle leaves its pool once the process works on another server.
func (s *postgresServers) connector(options ...stdlib.OptionOpenDB) driver.Connector {
	if s.found == nil {
		return onOneLine{stdlib.GetConnector(*s.cfg, options...)}
	}
	h := &hosts{foundHost: s.found, names: s.names}
	for n, cfg := range s.each {
		here := stdlib.OptionResetSession(func(context.Context, *pgx.Conn) error {
			if s.found.last.Load() != int32(n) {
				return driver.ErrBadConn
			}
			return nil
		})
		h.all = append(h.all, onOneLine{stdlib.GetConnector(*cfg, append(slices.Clip(options), here)...)})
	}
	return h
}

// onOneLine is a connector whose errors are one line each: the driver's have a line for each
// way that it has tried, and tries each server with TLS and without.
type onOneLine struct{ driver.Connector }

func (c onOneLine) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil {
		return conn, nil
	}
	var ways []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(ways, line) {
			ways = append(ways, line)
		}
	}
	return nil, &lineError{strings.Join(ways, " "), err}
}

// lineError says on one line what err says.
type lineError struct {
	line string
	err  error
}

func (e *lineError) Error() string { return e.line }
func (e *lineError) Unwrap() error { return e.err }

// where is what messages call the database.
func (s *postgresServers) where() string {
	return s.cfg.Database + " at " + strings.Join(s.names, ",")
}
