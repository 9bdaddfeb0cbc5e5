package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sluice/bench/baseline"
)

const (
	hookBatchItems = 1000
	hookConns      = 16
	hookRuns       = 3
	hookSpan       = 10 * time.Second
	hookSpanQuick  = 2 * time.Second
	hookRepeats    = 5 // batches that are posted again
	hookAnswer     = 200
	hookPath       = "/hooks/sendgrid/main"
)

// What is promised.
const (
	wantHooked     = 100_000 // events a second, in signed batches of 1,000
	wantHookedBulk = 0.6
)

// runHooks is `sluice-bench hooks`.
func runHooks(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	source, err := newHookSource()
	if err != nil {
		return err
	}
	r.report.Settings["events"] = fmt.Sprintf("%d bytes on average, seed %d, in the form of SendGrid, each batch signed (ECDSA, P-256) by the generator on the same cores", source.meanBytes(), elementSeed)
	r.report.Settings["backlog"] = httpBacklog
	for i := range pick(r, hookRuns, 1) {
		if err := e.hooked(ctx, source, i); err != nil {
			return err
		}
	}
	r.report.judge(target{ratio: "accepted_per_s", value: wantHooked}, r.report.value("accepted"))
	r.report.divide("stored_vs_bulk_load", "stored", "bulk_load", wantHookedBulk)
	r.report.limit("changed_by_repeats", "changed", 1)
	return nil
}

// hookSource makes requests of SendGrid, each event once.
type hookSource struct {
	first  int64 // batch
	taken  atomic.Int64
	key    *ecdsa.PrivateKey
	secret string // the public key as SendGrid shows it
}

func newHookSource() (*hookSource, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &hookSource{key: key, secret: base64.StdEncoding.EncodeToString(der)}, nil
}

// next appends a request with the next batch.
func (s *hookSource) next(dst []byte) ([]byte, int) {
	return s.batch(dst, s.first+s.taken.Add(1)-1), hookBatchItems
}

// batch appends the request of a batch. Its signature, which is of the body, has a place
// before it.
func (s *hookSource) batch(dst []byte, n int64) []byte {
	const longest = 96 // an ASN.1 signature of P-256 is 72 bytes at most
	seconds := strconv.FormatInt(time.Now().Unix(), 10)
	dst = append(dst, "POST "+hookPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Twilio-Email-Event-Webhook-Timestamp: "+seconds+
		"\r\nX-Twilio-Email-Event-Webhook-Signature: "...)
	signature := len(dst)
	dst = append(dst, strings.Repeat(" ", longest)+"\r\nContent-Length: 0000000\r\n\r\n"...)
	body := len(dst)
	for i := n * hookBatchItems; i < (n+1)*hookBatchItems; i++ {
		mark := byte(',')
		if i == n*hookBatchItems {
			mark = '['
		}
		x := at(i)
		dst = appendHookEvent(append(dst, mark), &x)
	}
	dst = append(dst, ']')
	size := strconv.Itoa(len(dst) - body)
	copy(dst[body-len("\r\n\r\n")-len(size):], size)
	h := sha256.New()
	h.Write([]byte(seconds))
	h.Write(dst[body:])
	sum, err := ecdsa.SignASN1(rand.Reader, s.key, h.Sum(nil))
	if err == nil { // else the answer says so
		copy(dst[signature:], base64.StdEncoding.EncodeToString(sum))
	}
	return dst
}

// appendHookEvent appends an event as SendGrid posts it, with the id of a send as its
// unique argument.
func appendHookEvent(dst []byte, x *element) []byte {
	dst = x.appendEmail(append(dst, `{"email":"`...))
	name := x.event
	if name == "spam" {
		name = "spamreport"
	}
	dst = append(append(append(dst, `","event":"`...), name...), `","timestamp":`...)
	dst = strconv.AppendInt(dst, x.timeMillis/1000, 10)
	dst = strconv.AppendInt(append(dst, `,"sg_event_id":"ZGVsaXZlcmVkLTAt`...), x.id, 10)
	dst = strconv.AppendInt(append(dst, `","sg_message_id":"sGX2kbW3QW`...), x.id, 10)
	dst = strconv.AppendUint(append(dst, `.recvd-canary-7d9c-1.0","category":["newsletter"],"campaign":"c`...), x.campaign, 10)
	switch name {
	case "delivered":
		dst = append(dst, `","response":"250 2.0.0 OK 1520999999 gsmtp","tls":1,"ip":"`...)
	case "open":
		dst = append(append(append(dst, `","useragent":"`...), x.ua...), `","ip":"`...)
	case "click":
		dst = append(append(append(dst, `","useragent":"`...), x.ua...), `","url":"https://shop.example.com/sale?utm=mail","ip":"`...)
	case "deferred":
		dst = append(dst, `","response":"451 4.7.1 try again later","attempt":"2","ip":"`...)
	case "bounce":
		status, reason := "5.2.0", "552 5.2.0 the mailbox does not answer"
		if x.id%4 == 0 {
			status, reason = "5.1.1", "550 5.1.1 the address does not exist"
		}
		dst = append(append(append(append(append(dst, `","type":"bounce","status":"`...), status...), `","reason":"`...), reason...), `","ip":"`...)
	default:
		dst = append(dst, `","ip":"`...)
	}
	for i, b := range x.ip {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, `"}`...)
}

func (s *hookSource) meanBytes() int {
	return len(s.batch(nil, 0)) / hookBatchItems
}

// hooked posts batches while the store runs, waits until all are in the table, posts some
// again, and loads the rows of the table by the database's own bulk load.
func (e *env) hooked(ctx context.Context, source *hookSource, n int) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, e.maria, standard.settings, httpBacklog, "hooks:\n  main: {provider: sendgrid, secret: "+source.secret+"}")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	e.run.say("webhooks of %d events over %d connections, run %d", hookBatchItems, hookConns, n+1)
	source.first, source.taken = 0, atomic.Int64{}
	address := strings.TrimPrefix(c.base, "http://")
	g := generator{address: address, conns: hookConns, span: pick(e.run, hookSpan, hookSpanQuick), next: source.next, done: wantStatus(hookAnswer)}
	before, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	started := time.Now()
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	rows := source.taken.Load() * hookBatchItems
	if err := c.awaitStored(ctx, rows); err != nil {
		return err
	}
	stored := time.Since(started)
	cpu, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	r := e.run.report
	for name, after := range cpu {
		r.add("cpu_"+strings.ToLower(name), "computing of "+name+" for an event, until it is written", "µs", float64((after-before[name]).Microseconds())/float64(rows))
	}
	memory, err := c.peakMemoryMB()
	if err != nil {
		return err
	}
	r.add("accepted", "events accepted, webhooks of 1,000, signed", "events/s", float64(all.items)/all.took.Seconds())
	r.add("p99", "answer to a webhook of 1,000, p99", "s", percentile(all.latencies, 0.99))
	r.add("refused", "requests told to come again (503)", "requests", float64(all.repeats))
	r.add("stored", "the same, from the first request to the last row", "rows/s", float64(rows)/stored.Seconds())
	r.add("memory", "Sluice's peak memory", "MB", memory)
	if err := e.hookedAgain(ctx, c, source); err != nil {
		return err
	}
	e.run.say("%s events/s accepted, %s rows/s stored", number(float64(all.items)/all.took.Seconds()), number(float64(rows)/stored.Seconds()))
	return e.hookBulk(ctx, c, rows)
}

// hookedAgain posts batches that are stored, and notes how many rows, counts and
// suppressions are another afterwards.
func (e *env) hookedAgain(ctx context.Context, c *child, source *hookSource) error {
	before, err := e.hookState(ctx)
	if err != nil {
		return err
	}
	var again atomic.Int64
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: 1, span: time.Hour, most: hookRepeats, done: wantStatus(hookAnswer),
		next: func(dst []byte) ([]byte, int) { return source.batch(dst, again.Add(1)-1), hookBatchItems }}
	if _, err := g.run(ctx); err != nil {
		return errors.Join(err, c.dead())
	}
	if err := c.await(ctx, "sluice_duplicates_total", hookRepeats*hookBatchItems); err != nil {
		return err
	}
	after, err := e.hookState(ctx)
	if err != nil {
		return err
	}
	changed := 0.0
	for i := range before {
		changed += max(after[i]-before[i], before[i]-after[i])
	}
	e.run.report.add("changed", "rows, counts of the series, suppressions and soft bounces that 5 batches posted again have changed", "", changed)
	return nil
}

// hookState is what a repeat must not change.
func (e *env) hookState(ctx context.Context) (all [5]float64, err error) {
	for i, query := range []string{
		"SELECT COUNT(*) FROM events", "SELECT COUNT(DISTINCT event_id) FROM events", "SELECT COALESCE(SUM(count), 0) FROM series_hours",
		"SELECT COUNT(*) FROM suppressions", "SELECT COUNT(*) FROM soft_bounces",
	} {
		if err := e.maria.handle().QueryRowContext(ctx, query).Scan(&all[i]); err != nil {
			return all, fmt.Errorf("%s: %w", query, err)
		}
	}
	return all, nil
}

// hookBulk loads the rows that the table has by LOAD DATA into an empty table that is made
// the same.
func (e *env) hookBulk(ctx context.Context, c *child, rows int64) error {
	file := filepath.Join(e.maria.files, "hooks.tsv")
	db := e.maria.handle()
	defer os.Remove(file)
	// The server writes the file; it must be able to, as it is able to read others here.
	if err := os.Chmod(e.maria.files, 0o777); err != nil {
		return fmt.Errorf("open the directory of the file to load: %w", err)
	}
	columns := strings.Join(standard.columns, ", ")
	if _, err := db.ExecContext(ctx, "SELECT "+columns+" INTO OUTFILE '"+file+`' CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' FROM events ORDER BY part, pos_major, pos_minor, item`); err != nil {
		return fmt.Errorf("write the file to load: %w", err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE hooks_bulk LIKE events"); err != nil {
		return fmt.Errorf("create a table to load into: %w", err)
	}
	before, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	took, loaded, err := baseline.LoadFile(ctx, db, file, "hooks_bulk", standard.columns)
	if err != nil {
		return err
	}
	if loaded != rows {
		return fmt.Errorf("load the rows again: %d of %d: the run is void", loaded, rows)
	}
	after, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	if cpu, own := after[mariaServer]; own { // else it is somebody's, and its times are not known
		e.run.report.add("cpu_bulk_load", "computing of "+mariaServer+" for such a row by LOAD DATA", "µs", float64((cpu-before[mariaServer]).Microseconds())/float64(rows))
	}
	e.run.report.add("bulk_load", "the same rows by LOAD DATA", "rows/s", float64(rows)/took.Seconds())
	e.run.say("%s rows/s by bulk load", number(float64(rows)/took.Seconds()))
	return nil
}
