package sqlstore

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"sluice/lib/netaddr"
)

const urlForms = "want sqlite:FILE, mysql://USER:PASSWORD@HOST:PORT/DB (several: HOST:PORT,HOST:PORT), mysql://USER:PASSWORD@unix(/PATH/OF/SOCKET)/DB or postgres://USER:PASSWORD@HOST:PORT/DB"

// splitURL separates the scheme from the rest. Its errors never show the rest:
// there may be a password in it.
func splitURL(address string) (scheme, rest string, err error) {
	scheme, rest, ok := strings.Cut(address, ":")
	if !ok {
		return "", "", fmt.Errorf("read database url: it has no scheme: %s", urlForms)
	}
	switch scheme {
	case "sqlite":
		return scheme, strings.TrimPrefix(rest, "//"), nil
	case "mysql", "mariadb", "postgres", "postgresql":
		rest, ok = strings.CutPrefix(rest, "//")
		if !ok {
			return "", "", fmt.Errorf("read database url: %s: lacks its //: %s", scheme, urlForms)
		}
		if strings.HasPrefix(scheme, "postgres") {
			return "postgres", rest, nil
		}
		return "mysql", rest, nil
	}
	return "", "", fmt.Errorf("read database url: a scheme this program does not know: %s", urlForms)
}

// mysqlConfig reads USER:PASSWORD@ADDRESS/DB?PARAMS the way the driver reads
// its own form. The last slash before the parameters begins the database, the
// last @ before it ends the password. So a password may hold both, or have them
// percent-encoded as in any URL. The parameter socket=/PATH is another way to
// write unix(/PATH).
func mysqlConfig(rest string) (*mysql.Config, error) {
	head, params, _ := strings.Cut(rest, "?")
	if i := strings.LastIndex(rest, "@"); i > len(head) {
		// The ? belongs to the password: the parameters begin after the @.
		tail, p, _ := strings.Cut(rest[i:], "?")
		head, params = rest[:i]+tail, p
	}
	slash := strings.LastIndexByte(head, '/')
	if slash < 0 || slash == len(head)-1 {
		return nil, fmt.Errorf("read database url: it names no database: %s", urlForms)
	}
	values, err := url.ParseQuery(params)
	if err != nil {
		return nil, fmt.Errorf("read database url: its parameters: %w", err)
	}
	socket := values.Get("socket")
	values.Del("socket")
	cfg, err := mysql.ParseDSN("/?" + values.Encode())
	if err != nil {
		return nil, fmt.Errorf("read database url: its parameters: %w", err)
	}
	cfg.DBName = unescape(head[slash+1:])
	address := head[:slash]
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		user, password, _ := strings.Cut(address[:at], ":")
		cfg.User, cfg.Passwd = unescape(user), unescape(password)
		address = address[at+1:]
	}
	cfg.Net, cfg.Addr = "tcp", address
	if open := strings.IndexByte(address, '('); open >= 0 && strings.HasSuffix(address, ")") {
		cfg.Net, cfg.Addr = address[:open], address[open+1:len(address)-1]
	}
	if socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	if cfg.Net == "tcp" {
		hosts := strings.Split(cfg.Addr, ",")
		for i, host := range hosts {
			if hosts[i] = netaddr.WithPort(cmp.Or(host, "127.0.0.1"), "3306"); host == "" && len(hosts) > 1 {
				return nil, fmt.Errorf("read database url: one of its hosts is empty: %s", urlForms)
			}
		}
		cfg.Addr = strings.Join(hosts, ",")
	}
	return cfg, nil
}

// postgresConnectWithin bounds one attempt to connect, if the URL does not.
const postgresConnectWithin = 5 * time.Second

// postgresConfig reads a URL of libpq's form. Its errors hold nothing of the
// URL: what part of a broken one is the password cannot be told.
func postgresConfig(address string) (*pgx.ConnConfig, error) {
	const escape = "write the special characters of a user and a password as %%XX"
	u, err := url.Parse(address)
	if err != nil || strings.Contains(u.Path, "@") || strings.Contains(u.Fragment, "@") {
		return nil, fmt.Errorf("read database url: it is no URL: "+escape+": %s", urlForms)
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, fmt.Errorf("read database url: it names no database: %s", urlForms)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil || strings.Contains(u.RawQuery, "@") {
		return nil, fmt.Errorf("read database url: its parameters cannot be read: "+escape+": %s", urlForms)
	}
	// Of several hosts the one that takes writes is meant, whatever a replica says.
	if q := u.Query(); strings.Contains(u.Host, ",") && !q.Has("target_session_attrs") {
		q.Set("target_session_attrs", "read-write")
		u.RawQuery = q.Encode()
		address = u.String()
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("read database url: a parameter of it, or of the environment (PG...), is wrong: %s", urlForms)
	}
	if cfg.ConnectTimeout == 0 || !strings.Contains(u.RawQuery, "connect_timeout") {
		cfg.ConnectTimeout = postgresConnectWithin
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "sluice"
	}
	cfg.DialFunc = dialServer
	// One round trip a statement, and nothing kept on the server that an ALTER
	// TABLE could make stale.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	return cfg, nil
}

func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// sqliteFile returns the absolute path of a database file.
func sqliteFile(rest string) (string, error) {
	if rest == "" || strings.Contains(rest, ":memory:") {
		return "", fmt.Errorf("read database url: sqlite: needs the name of a file: what is written must outlive the process")
	}
	path, err := filepath.Abs(rest)
	if err != nil {
		return "", fmt.Errorf("read database url: %w", err)
	}
	return path, nil
}

// sqliteDSN makes the driver's form of a path and settings.
func sqliteDSN(path string, params url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params.Encode()
}
