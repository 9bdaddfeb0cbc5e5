package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/ops/examine"
	"sluice/store/mongostore"
	"sluice/store/sqlstore"
)

const doctorLong = `
Looks at everything the program depends on and says what is wrong and what to do: the
configuration, every Redis of it, the database, the mirror of the series, the free space
of their directories, the domains that mail is sent from, and the running processes: which
holds which role, what is behind, what stands still. It changes nothing, works with and
without a running program, and continues when a server does not answer. Exits with 1 if it
finds an error; warnings do not count. docs/doctor.md explains every check.
`

var doctorFlags = []flagSpec{
	{name: "json", help: "one JSON object: summary and findings (INTERFACES.md, section 7)"},
	{name: "all", help: "also show what is in order, with its figures"},
}

// Bounds of an examination. A server that is slower than that is said so.
const (
	runningTimeout = 20 * time.Second

	parallelExaminations = 32
)

func runDoctor(ctx context.Context, c *call) error {
	report := doctorReport{}
	cfg, err := c.load(nil)
	if err != nil {
		e := doctor.Examination{Where: "configuration"}
		e.Fail(doctor.CheckConfigValid, "mend it; nothing else was looked at", "%s", doctor.OneLine(err))
		report.Add(e)
	} else {
		(&examination{config: cfg, clock: sluice.SystemClock{}, report: &report}).examine(ctx)
	}
	return report.show(c, "doctor")
}

// examination is what doctor does to an installation.
type examination struct {
	config *config.Config
	clock  sluice.Clock
	report *doctorReport

	mainURL string // of the main Redis; empty: it is embedded, and none runs

	answering   map[config.URL]bool // servers of Redis
	database    bool                // it answers
	directories []string            // of servers on this machine
}

// examine looks at the servers side by side, then at what runs on them.
func (d *examination) examine(ctx context.Context) {
	d.report.Add(examineConfig(d.config))
	d.servers(ctx)
	d.report.Add(engine.ExamineServerTLS(d.config))
	seen := make(map[string]bool)
	for _, dir := range append([]string{d.config.Data}, d.directories...) {
		if dir, err := filepath.Abs(dir); err == nil && !seen[dir] {
			seen[dir] = true
			d.report.Add(engine.ExamineDisk(dir))
		}
	}
	d.report.Add(examineSpill(engine.SpillDir(d.config), d.clock))
	d.domains(ctx)
	d.running(ctx)
	d.followers(ctx)
}

// servers examines every Redis of the configuration, the database and the
// mirror.
func (d *examination) servers(ctx context.Context) {
	urls := engine.RedisURLs(d.config)
	d.answering = make(map[config.URL]bool)
	examiners := make([]doctor.Examiner, 0, len(urls)+2)
	for _, url := range urls {
		address := url.Reveal()
		if url == config.RedisEmbedded {
			address = d.embedded()
		}
		if url == d.config.Redis {
			d.mainURL = address
		}
		if address != "" {
			examiners = append(examiners, &flow.Examiner{URL: address, Main: url == d.config.Redis, Clock: d.clock})
		} else {
			examiners = append(examiners, nil)
		}
	}
	examiners = append(examiners, &sqlstore.Examiner{URL: d.config.Database.Reveal(), Tables: engine.TableSpecs(d.config),
		Keeps: d.config.Retention != (config.Retention{}), Clock: d.clock, Processes: d.living, Writers: d.config.StoreWriters, Partitions: d.config.Partitions})
	if d.config.TimeSeries != "" {
		examiners = append(examiners, &mongostore.Examiner{URL: d.config.TimeSeries.Reveal()})
	}
	results := make([]doctor.Examination, len(examiners))
	var group errgroup.Group
	group.SetLimit(parallelExaminations)
	for i, x := range examiners {
		if x == nil {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, engine.ExamineTimeout)
			defer cancel()
			results[i] = x.Examine(ctx)
			return nil
		})
	}
	_ = group.Wait() // examinations do not fail
	for i, e := range results {
		if examiners[i] == nil {
			continue
		}
		d.report.Add(e)
		if e.Directory != "" {
			d.directories = append(d.directories, e.Directory)
		}
		for _, f := range e.Findings {
			if i < len(urls) && f.Check == doctor.CheckRedisReachable {
				d.answering[urls[i]] = f.Severity == doctor.SeverityOK
			}
			if f.Check == doctor.CheckDatabaseReachable {
				d.database = f.Severity == doctor.SeverityOK
			}
		}
	}
}

// living returns how many processes live; 0: Redis does not say.
func (d *examination) living(ctx context.Context) int {
	if d.mainURL == "" {
		return 0
	}
	main, err := flow.Dial(ctx, d.mainURL)
	if err != nil {
		return 0 // another check says so
	}
	defer main.Close()
	n, err := flow.Living(ctx, main, false)
	if err != nil {
		return 0
	}
	return n
}

// embedded returns where the embedded Redis listens; empty, with a finding, if
// it does not run. It is not started: that would change its files.
func (d *examination) embedded() string {
	note, err := os.ReadFile(engine.EmbeddedNote(d.config))
	if err == nil {
		err = knock(string(note)) // its program may have ended since
	}
	if err != nil {
		e := doctor.Examination{Where: "embedded redis"}
		e.Unknown(errors.New("it runs only while sluice does, and none runs on the data directory "+d.config.Data), doctor.CheckRedisReachable)
		d.report.Add(e)
		return ""
	}
	return string(note)
}

// knock connects to the socket of an embedded Redis.
func knock(address string) error {
	at, err := url.Parse(address)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("unix", at.Path, engine.LookTimeout)
	if err != nil {
		return err
	}
	return conn.Close()
}

// running looks at what Redis and the database say together, or one of them.
func (d *examination) running(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	x := &examine.Installation{Partitions: d.config.Partitions, Mirrors: d.config.TimeSeries != "", Alone: strings.HasPrefix(string(d.config.Database), "sqlite:"), Clock: d.clock}
	// Whatever is wrong with either was found before: it is left out here.
	if d.answering[d.config.Redis] {
		if main, err := flow.Dial(ctx, d.mainURL); err == nil {
			defer main.Close()
			x.Redis = main
			lists, closeLists := d.lists(ctx, main)
			defer closeLists()
			x.Lists = lists
		}
	}
	if d.database {
		if store, err := sqlstore.Open(ctx, d.config.Database.Reveal(), sqlstore.Options{ReadOnly: true, Clock: d.clock}); err == nil {
			defer store.Close()
			if have, _, err := store.SchemaVersion(ctx); err == nil && have > 0 && engine.AdoptPartitions(ctx, d.config, store) == nil {
				x.Store, x.Partitions = store, d.config.Partitions
			} else {
				x.Empty = err == nil && have == 0
			}
		}
	}
	if x.Store == nil && !x.Empty && !d.config.Named("partitions") {
		x.Partitions = 0
	}
	d.report.Add(x.Examine(ctx))
}

// lists returns the lists and hashes whose server answers.
func (d *examination) lists(ctx context.Context, main *flow.Redis) (lists []*flow.List, closeAll func()) {
	servers := map[config.URL]*flow.Redis{d.config.Redis: main}
	on := func(url config.URL) *flow.Redis {
		if _, known := servers[url]; !known && d.answering[url] {
			servers[url], _ = flow.Dial(ctx, url.Reveal()) // what is wrong with it was found above
		}
		return servers[url]
	}
	e := doctor.Examination{}
	add := func(l *flow.List, err error) {
		if err != nil {
			e.Unknown(err, doctor.CheckLag)
		} else if l != nil {
			lists = append(lists, l)
		}
	}
	for _, l := range d.config.Lists {
		if r := on(d.config.ListRedis(l)); r != nil {
			e.Where = "list " + l.Name
			add(flow.NewList(r, l.Name, flow.Side(l.Take)))
		}
	}
	for _, h := range d.config.Hashes {
		for _, url := range h.Redis {
			if r := on(url); r != nil {
				e.Where = "hashes " + h.Dirty
				add(flow.FindHashes(ctx, r, h.Dirty))
			}
		}
	}
	d.report.Add(e)
	return lists, func() {
		for _, r := range servers {
			if r != nil && r != main {
				r.Close()
			}
		}
	}
}

// followers asks the program itself, if it runs here: only it knows why a
// follower fails.
func (d *examination) followers(ctx context.Context) {
	e := doctor.Examination{Where: "http://" + reachable(d.config.Listen)}
	status, answer, err := askReady(ctx, d.config)
	switch {
	case err != nil:
		e.Unknown(err, doctor.CheckFollowers)
	case status == http.StatusOK && strings.Contains(answer, `"warnings"`):
		e.Warn(doctor.CheckFollowers, "see to what it names; mail of a route that does not work waits, or goes by others", "the program here is ready, and warns: %s", readinessOf(answer))
	case status == http.StatusOK:
		e.Fine(doctor.CheckFollowers, "the program here is ready, and its followers get on")
	default:
		e.Fail(doctor.CheckFollowers, "mend what it names; it tries again by itself", "the program here is not ready: %s", readinessOf(answer))
	}
	d.report.Add(e)
}

// readinessOf is what an answer of /readyz names, as one line: what keeps the program from
// its work or, where nothing does, its warnings.
func readinessOf(answer string) string {
	var is struct{ Reasons, Warnings []string }
	if json.Unmarshal([]byte(answer), &is) != nil || len(is.Reasons)+len(is.Warnings) == 0 {
		return answer // of another program
	}
	named := is.Reasons
	if len(named) == 0 {
		named = is.Warnings
	}
	return doctor.OneLine(errors.New(strings.Join(named, "; ")))
}
