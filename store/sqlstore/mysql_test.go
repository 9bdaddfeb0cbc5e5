package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
)

// stallLimit is how long a stopped process may delay its successor before these
// tests call it for ever. It is far above the session limits, and below the
// server's own (net_read_timeout 30 s, innodb_lock_wait_timeout 50 s,
// wait_timeout 8 h).
const stallLimit = 25 * time.Second

// commitPacket is a COMMIT by itself, not that of READ COMMITTED: the byte
// before it is the command COM_QUERY.
var commitPacket = []byte("\x03COMMIT")

func events(n int) []store.StoredEvent {
	list := make([]store.StoredEvent, n)
	for i := range list {
		list[i] = store.StoredEvent{
			Event: sluice.Event{
				Kind: sluice.KindMail, TimeMillis: 1_760_000_000_000 + int64(i/2), Name: sluice.EventOpened, App: "app1",
				Email: "user12345@example.com", User: "u12345", Message: "m123456", Properties: `{"ip":"10.0.0.17","ua":"Mozilla/5.0 (X11; Linux) Gecko"}`,
			},
			Place: sluice.Place{Partition: 1, Position: sluice.Position{Major: 1_760_000_000_000, Minor: uint64(i / 1000)}, Index: i % 1000},
		}
	}
	return list
}

func effectTo(major uint64, list []store.StoredEvent) *store.Effect {
	return &store.Effect{
		Moves:  []store.Move{{Follower: "store", From: sluice.Position{Major: major - 1}, To: sluice.Position{Major: major}}},
		Events: list,
	}
}

func apply(ctx context.Context, s *sqlstore.Store, e *store.Effect) error {
	p, err := s.Prepare(e)
	if err == nil {
		_, err = s.Apply(ctx, p)
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// migrated opens a store on a database and creates the cursor of partition 0.
func migrated(t testing.TB, url string, options sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s := open(t, url, options)
	must(t, s.Migrate(t.Context()))
	_, err := s.Cursors(t.Context(), "store", []int{0})
	must(t, err)
	return s
}

// TestStoppedProcessIsThrownOut stops what a process sends as a SIGSTOP would,
// inside its transaction: the server sees an open connection that falls
// silent. Its successor gets through, and the process, continued, is late.
func TestStoppedProcessIsThrownOut(t *testing.T) {
	for _, limit := range []string{"idle_transaction_timeout", "wait_timeout"} {
		for name, rule := range map[string]proxy.Rule{
			"before COMMIT":        {Direction: proxy.ToServer, Pattern: commitPacket, Stall: true},
			"before the load":      {Direction: proxy.ToServer, Pattern: []byte("LOAD DATA"), Stall: true},
			"middle of the stream": {Direction: proxy.ToServer, Bytes: 1_000_000, Stall: true},
		} {
			t.Run(limit+"/"+name, func(t *testing.T) {
				t.Parallel()
				database, proxy := newDatabase(t), newProxy(t)
				successor := migrated(t, mariadb.SocketURL(database), served)
				stopped := open(t, "mysql://root@"+proxy.Addr()+"/"+database, served)
				if limit == "wait_timeout" {
					sqlstore.LimitByWait(stopped)
				}
				checkThrownOut(t, successor, stopped, proxy, rule, bypass(t, "mysql", mariadb.DSN(database)))
			})
		}
	}
}

// checkThrownOut has a process fall silent as rule says, and its successor go on.
func checkThrownOut(t *testing.T, successor, stopped *sqlstore.Store, proxy *proxy.Proxy, rule proxy.Rule, db *sql.DB) {
	t.Helper()
	armed, err := proxy.Arm(rule)
	must(t, err)
	zombie := make(chan error, 1)
	write := func() { zombie <- apply(t.Context(), stopped, effectTo(1, events(20_000))) }
	go write()
	for fired, tries := false, 1; !fired; {
		select {
		case <-armed.Fired():
			fired = true
		case err := <-zombie: // a busy machine: it rested for too long before
			if tries++; err == nil || tries > 20 {
				t.Fatalf("it has not come to where it is to be stopped: %v", err)
			}
			t.Log(err)
			go write()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), stallLimit)
	defer cancel()
	began := time.Now()
	err = apply(ctx, successor, effectTo(1, events(100)))
	for err != nil && ctx.Err() == nil {
		t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
		err = apply(ctx, successor, effectTo(1, events(100)))
	}
	must(t, err)
	t.Logf("the successor got through after %s", time.Since(began).Round(time.Millisecond))
	proxy.Resume()
	if err := <-zombie; err == nil {
		t.Error("the stopped process, continued, believes that it has written")
	}
	if err := apply(t.Context(), stopped, effectTo(1, events(20_000))); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("the stopped process's next attempt: %v, want a conflict", err)
	}
	if n := queryTexts(t, db, "SELECT COUNT(*) FROM events")[0][0]; n != "100" {
		t.Errorf("%s events, want 100", n)
	}
}

// TestWriterReconnects ends the writer's connection as the server does with an
// idle one. What was prepared on it ends with it.
func TestWriterReconnects(t *testing.T) {
	database := newDatabase(t)
	s := migrated(t, mariadb.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "mysql", mariadb.DSN(database))
	for n := range uint64(3) {
		must(t, apply(t.Context(), s, effectTo(n+1, events(1))))
		bodies := make([]mail.Body, 40) // more than one statement has
		ids := make([]string, len(bodies))
		for i := range bodies {
			ids[i] = sluice.NewMessageID(int64(n))
			bodies[i] = mail.Body{Message: ids[i], Recipients: 1, CreatedMillis: 1, Data: []byte(ids[i])}
		}
		must(t, s.AddBodies(t.Context(), bodies))
		found, err := s.Bodies(t.Context(), ids, 0)
		must(t, err)
		for _, id := range ids {
			if string(found[id]) != id {
				t.Fatalf("body %s is %q", id, found[id])
			}
		}
		for _, row := range queryTexts(t, db, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '"+database+"' AND ID <> CONNECTION_ID()") {
			exec(t, db, "KILL "+row[0])
		}
	}
}

// TestInfileForbidden turns LOAD DATA LOCAL off while the store is at work, and
// opens another afterwards.
func TestInfileForbidden(t *testing.T) {
	database := newDatabase(t)
	s := migrated(t, mariadb.SocketURL(database), sqlstore.Options{})
	named := func(step uint64, n int) *store.Effect {
		e := effectTo(step, events(n))
		for i := range e.Events {
			e.Events[i].ID, e.Events[i].Place.Position.Major = strconv.Itoa(i), step
		}
		return e
	}
	must(t, apply(t.Context(), s, named(1, 10)))
	if got := sqlstore.BulkPath(s); got != "LOAD DATA LOCAL" {
		t.Fatalf("the bulk path is %q", got)
	}
	db := bypass(t, "mysql", mariadb.DSN(database))
	exec(t, db, "SET GLOBAL local_infile = 0")
	t.Cleanup(func() {
		if _, err := db.Exec("SET GLOBAL local_infile = 1"); err != nil {
			t.Error(err)
		}
	})
	p, err := s.Prepare(named(2, 20))
	must(t, err)
	applied, err := s.Apply(t.Context(), p)
	must(t, err)
	if want := (store.Applied{Rows: 10, Duplicates: 10}); applied != want {
		t.Fatalf("applied %+v, want %+v", applied, want)
	}
	for _, store := range []*sqlstore.Store{s, open(t, mariadb.SocketURL(database), sqlstore.Options{})} {
		if got := sqlstore.BulkPath(store); got != "INSERT" {
			t.Errorf("the bulk path is %q", got)
		}
	}
}

func TestMariaDBTablesRefused(t *testing.T) {
	database := newDatabase(t)
	s := migrated(t, mariadb.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "mysql", mariadb.DSN(database))
	for name, definition := range map[string]string{
		"t_myisam": "(a BIGINT) ENGINE=MyISAM",
		"t_aria":   "(a BIGINT) ENGINE=Aria",
		"t_memory": "(a BIGINT) ENGINE=MEMORY",
		"t_csv":    "(a BIGINT NOT NULL) ENGINE=CSV",
		"t_parted": "(a BIGINT) ENGINE=MyISAM PARTITION BY HASH(a) PARTITIONS 2",
	} {
		exec(t, db, "CREATE TABLE "+name+" "+definition)
		_, err := s.OpenTable(t.Context(), store.TableSpec{Table: name, Columns: []string{"a"}})
		if err == nil || !strings.Contains(err.Error(), "ENGINE=InnoDB") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	exec(t, db, "CREATE TABLE fine (a BIGINT) PARTITION BY HASH(a) PARTITIONS 2")
	_, err := s.OpenTable(t.Context(), store.TableSpec{Table: database + ".fine", Columns: []string{"a"}})
	must(t, err)
	exec(t, db, "CREATE TABLE beginnings (id VARCHAR(40), UNIQUE (id(4)))")
	if _, err = s.OpenTable(t.Context(), store.TableSpec{Table: "beginnings", Columns: []string{"id"}, Dedupe: "id"}); err == nil {
		t.Error("a key over the beginning of the id was taken for one over the id")
	}
	exec(t, db, "CREATE TABLE computed (a BIGINT, b BIGINT AS (a + 1) STORED)")
	if _, err = s.OpenTable(t.Context(), store.TableSpec{Table: "computed", Columns: []string{"a", "b"}}); err == nil {
		t.Error("a computed column was mapped")
	}
}

// TestMariaDBColumns stores into columns whose types need care.
func TestMariaDBColumns(t *testing.T) {
	for _, path := range []string{"LOAD DATA LOCAL", "INSERT"} {
		t.Run(path, func(t *testing.T) {
			database := newDatabase(t)
			s := migrated(t, mariadb.SocketURL(database), sqlstore.Options{})
			if path == "INSERT" {
				sqlstore.ForbidInfile(s)
			}
			db := bypass(t, "mysql", mariadb.DSN(database))
			exec(t, db, "CREATE TABLE odd (`a b``c` BIT(8), u BIGINT UNSIGNED, l VARCHAR(20) CHARACTER SET latin1, j JSON, d DECIMAL(6,2))")
			table, err := s.OpenTable(t.Context(), store.TableSpec{Table: "odd", Columns: []string{"a b`c", "u", "l", "j", "d"}})
			must(t, err)
			row := func(bit store.Cell, u, l, j, d string) []store.Cell {
				return []store.Cell{bit, {Kind: store.CellNumber, Text: u}, {Kind: store.CellText, Text: l}, {Kind: store.CellJSON, Text: j}, {Kind: store.CellNumber, Text: d}}
			}
			cells := row(store.Cell{Kind: store.CellBool, Text: "true"}, "18446744073709551615", "caf\u00e9", `{"a":1}`, "1.25")
			cells = append(cells, row(store.Cell{Kind: store.CellNumber, Text: "200"}, "0", "", `[]`, "1.239")...)
			p, err := s.Prepare(&store.Effect{Rows: []store.TableRows{{Table: table, Cells: cells, Raw: []string{"", ""}}}})
			must(t, err)
			_, err = s.Apply(t.Context(), p)
			must(t, err)
			got := queryTexts(t, db, "SELECT `a b``c` + 0, u, HEX(l), j, d FROM odd ORDER BY u")
			if strings.Join(got[0], " ") != "200 0  [] 1.24" || strings.Join(got[1], " ") != `1 18446744073709551615 636166E9 {"a":1} 1.25` {
				t.Errorf("got %q", got)
			}
			bad := row(store.Cell{Kind: store.CellNumber, Text: "300"}, "1", "x", `{}`, "1")           // BIT(8)
			bad = append(bad, row(store.Cell{}, "-1", "x", `{}`, "1")...)                              // unsigned
			bad = append(bad, row(store.Cell{}, "1", "\u6c49", `{}`, "1")...)                          // no such character in latin1
			bad = append(bad, row(store.Cell{}, "1", "x", `{"a"`, "1")...)                             // JSON
			bad = append(bad, row(store.Cell{}, "1", "x", `{}`, "12345")...)                           // DECIMAL(6,2)
			bad = append(bad, row(store.Cell{Kind: store.CellText, Text: "x"}, "1", "x", `1`, "1")...) // BIT
			for i := range len(bad) / 5 {
				p, err := s.Prepare(&store.Effect{Rows: []store.TableRows{{Table: table, Cells: bad[i*5 : i*5+5], Raw: []string{"x"}}}})
				must(t, err)
				if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
					t.Errorf("row %d: got error %v, want refused", i, err)
				}
				applied, err := s.ApplyEach(t.Context(), p)
				must(t, err)
				if applied.Dead != 1 {
					t.Errorf("row %d: applied %+v row by row", i, applied)
				}
			}
		})
	}
}

// TestEveryRowIsAccountedFor lets a row vanish on its way, without a warning.
func TestEveryRowIsAccountedFor(t *testing.T) {
	s := migrated(t, mariadb.SocketURL(newDatabase(t)), sqlstore.Options{})
	p, err := s.Prepare(effectTo(1, events(10)))
	must(t, err)
	sqlstore.LoseLastRow(p)
	if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
		t.Fatalf("got error %v, want refused", err)
	}
	applied, err := s.ApplyEach(t.Context(), p)
	must(t, err)
	if applied.Rows != 10 {
		t.Fatalf("applied %+v row by row", applied)
	}
}

// A server or user that bounds the time of statements to less than a migration takes
// does not cut it off. It pretends, as other tests do, so it does not run beside them.
func TestMariaDBMigrationTakesItsTime(t *testing.T) {
	name := newDatabase(t)
	db := bypass(t, "mysql", mariadb.DSN(name))
	exec(t, db, "CREATE USER hasty@'%' IDENTIFIED BY 's3cret' WITH MAX_STATEMENT_TIME 1")
	exec(t, db, "GRANT ALL ON "+name+".* TO hasty@'%'")
	url := strings.Replace(mariadb.URL(name), "root@", "hasty:s3cret@", 1)
	own := bypass(t, "mysql", strings.Replace(mariadb.DSN(name), "root@", "hasty:s3cret@", 1))
	if got := queryTexts(t, own, "SELECT @@max_statement_time"); got[0][0] != "1" {
		t.Fatalf("the bound is %v", got)
	}
	store := migrated(t, url, sqlstore.Options{})
	undo := sqlstore.Pretend("sleep")
	err := store.Migrate(t.Context())
	undo()
	must(t, err)
	must(t, store.Ping(t.Context()))
}
