package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"

	"sluice/lib/doctor"
)

// The hosts of a URL that names several. A process works on one of them: that the others
// are dead, mistyped or far behind shows only when that one is gone.

const (
	// hostsWithin bounds how long each host is asked, all of them at once.
	hostsWithin = 3 * time.Second

	// mostLagSeconds is for how long the logs keep applied entries at most
	// (log_margin_megabytes). What a replica lacks beyond that is lost by its promotion.
	mostLagSeconds = 60
)

// hostState is what one of several hosts says of itself.
type hostState struct {
	name     string
	err      error  // it does not answer
	server   string // the same of two names of one server, and of the nodes of one Galera cluster
	writable bool

	nodes int64  // of its Galera cluster; 0: it is in none
	apart string // of a Galera node: why it serves nothing

	follows bool // a replica: a primary
	why     string
	lag     int64 // in seconds
	unseen  error // why lag and follows are unknown
}

// judgeHosts says what is wrong with each host, and with all of them together.
func judgeHosts(e *doctor.Examination, all []hostState) {
	writable := make(map[string][]string)
	well := true
	succeeded := slices.ContainsFunc(all, func(h hostState) bool { return h.writable && h.nodes == 0 })
	for i := range all {
		of := doctor.Examination{Where: all[i].name}
		all[i].judge(&of, int64(len(all)), succeeded)
		well = well && len(of.Findings) == 0
		e.Findings = append(e.Findings, of.Findings...)
		if all[i].writable {
			writable[all[i].server] = append(writable[all[i].server], all[i].name)
		}
	}
	if len(writable) > 1 {
		var names []string
		for _, server := range slices.Sorted(maps.Keys(writable)) {
			names = append(names, writable[server]...)
		}
		e.Fail(doctor.CheckDatabaseHosts, "see which one is the primary, stop the others, and start them as its replicas (docs/scale.md): MariaDB and MySQL with read_only = 1 in my.cnf, PostgreSQL from a new copy",
			"%s take writes, and are not one cluster: processes may write to different ones", strings.Join(names, " and "))
	} else if well {
		e.Fine(doctor.CheckDatabaseHosts, "its %d hosts answer, and are as they should be", len(all))
	}
}

// judge says what is wrong with a host, of so many that the URL names. Where another one
// takes writes (succeeded), a host that is down may be the primary of before: started as it
// is, it would take writes too.
func (h *hostState) judge(e *doctor.Examination, named int64, succeeded bool) {
	const follow = "see the replication's error on it (SHOW REPLICA STATUS, pg_stat_wal_receiver), or take it out of the URL"
	start := "start it, see that its name, port and the firewall are right, or take it out of the URL"
	if succeeded {
		start += "; if it was the primary, it must come back as a replica of the one that takes writes (docs/scale.md)"
	}
	switch {
	case h.err != nil:
		e.Warn(doctor.CheckDatabaseHosts, start, "it is named in the URL, and does not serve: %s", doctor.OneLine(h.err))
	case h.apart != "":
		e.Warn(doctor.CheckDatabaseHosts, "see the other nodes, and the network between them", "this Galera node serves nothing: %s", h.apart)
	case h.nodes > 0 && h.nodes < named:
		e.Warn(doctor.CheckDatabaseHosts, "start the others, and see that they name the same cluster", "its Galera cluster has %d nodes, the URL names %d", h.nodes, named)
	case h.writable || h.nodes > 0:
	case h.unseen != nil:
		e.Unknown(fmt.Errorf("ask how far the replica is behind (MariaDB: GRANT REPLICA MONITOR ON *.*, MySQL: REPLICATION CLIENT): %w", h.unseen), doctor.CheckDatabaseHosts)
	case !h.follows:
		e.Warn(doctor.CheckDatabaseHosts, follow, "it takes no writes, and follows no primary: %s", h.why)
	case h.lag > mostLagSeconds:
		e.Warn(doctor.CheckDatabaseHosts, follow, "it is %d s behind its primary; the logs keep what is stored for %d s at most, so its promotion would lose the rest", h.lag, mostLagSeconds)
	}
}

// askHosts asks all hosts at once.
func askHosts(ctx context.Context, e *doctor.Examination, names []string, ask func(ctx context.Context, n int, is *hostState) error) {
	ctx, cancel := context.WithTimeout(ctx, hostsWithin)
	defer cancel()
	all := make([]hostState, len(names))
	var asking sync.WaitGroup
	for n := range names {
		asking.Go(func() {
			all[n].name = names[n]
			all[n].err = ask(ctx, n, &all[n])
		})
	}
	asking.Wait()
	judgeHosts(e, all)
}

// mysqlHostsOf looks at each host, if there are several.
func mysqlHostsOf(ctx context.Context, e *doctor.Examination, connector driver.Connector) {
	if h, several := connector.(*hosts); several {
		askHosts(ctx, e, h.names, func(ctx context.Context, n int, is *hostState) error { return is.askMySQL(ctx, h.all[n]) })
	}
}

func (h *hostState) askMySQL(ctx context.Context, connector driver.Connector) error {
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.QueryRowContext(ctx, query(&mysqlDialect{}, "examine_host")).Scan(&h.writable, &h.server); err != nil {
		return err
	}
	cluster, err := firstRow(ctx, conn, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
	if err == nil && cluster["Value"] == "ON" {
		return h.askGalera(ctx, conn)
	}
	if err == nil && !h.writable {
		h.askReplica(ctx, conn)
	}
	return err
}

func (h *hostState) askGalera(ctx context.Context, conn *sql.Conn) error {
	is := make(map[string]string)
	for _, name := range []string{"wsrep_ready", "wsrep_cluster_status", "wsrep_cluster_size", "wsrep_cluster_state_uuid", "wsrep_local_state_comment"} {
		row, err := firstRow(ctx, conn, "SHOW GLOBAL STATUS LIKE '"+name+"'")
		if err != nil {
			return err
		}
		is[name] = row["Value"]
	}
	nodes, err := strconv.ParseInt(is["wsrep_cluster_size"], 10, 64)
	h.nodes, h.server = max(1, nodes), is["wsrep_cluster_state_uuid"]
	if is["wsrep_ready"] != "ON" || is["wsrep_cluster_status"] != "Primary" {
		h.writable = false
		h.apart = fmt.Sprintf("wsrep_ready is %s, wsrep_cluster_status %s, wsrep_local_state_comment %s", is["wsrep_ready"], is["wsrep_cluster_status"], is["wsrep_local_state_comment"])
	}
	return err
}

// errSyntax is what a server answers to a statement that it does not know.
const errSyntax = 1064

// askReplica reads how a replica stands. Older servers have other words for it.
func (h *hostState) askReplica(ctx context.Context, conn *sql.Conn) {
	row, err := firstRow(ctx, conn, "SHOW REPLICA STATUS")
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == errSyntax {
		row, err = firstRow(ctx, conn, "SHOW SLAVE STATUS")
	}
	of := func(names ...string) (value string) {
		for _, name := range names {
			value = cmp.Or(value, row[name])
		}
		return value
	}
	behind := of("Seconds_Behind_Master", "Seconds_Behind_Source")
	switch {
	case err != nil:
		h.unseen = err
	case row == nil:
		h.why = "no replication is set up"
	case behind == "":
		h.why = fmt.Sprintf("its threads that receive and apply say %s and %s (%s)", of("Slave_IO_Running", "Replica_IO_Running"),
			of("Slave_SQL_Running", "Replica_SQL_Running"), cmp.Or(of("Last_IO_Error", "Last_SQL_Error"), "no error"))
	default:
		h.follows = true
		h.lag, h.unseen = strconv.ParseInt(behind, 10, 64)
	}
}

// firstRow returns the first row of a statement as texts, by the names of its columns; nil:
// there is none.
func firstRow(ctx context.Context, conn *sql.Conn, statement string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		return nil, cmp.Or(err, rows.Err())
	}
	cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(names))
	for i, name := range names {
		row[name] = cells[i].String
	}
	return row, nil
}

// postgresHostsOf looks at each host, if there are several.
func postgresHostsOf(ctx context.Context, e *doctor.Examination, servers *postgresServers) {
	if len(servers.names) < 2 {
		return
	}
	askHosts(ctx, e, servers.names, func(ctx context.Context, n int, is *hostState) error {
		one := servers.each[n].Copy()
		one.ValidateConnect = nil
		db := stdlib.OpenDB(*one)
		defer db.Close()
		is.why = "it receives nothing from one"
		return db.QueryRowContext(ctx, query(&postgresDialect{}, "examine_host")).Scan(&is.writable, &is.server, &is.follows, &is.lag)
	})
}
