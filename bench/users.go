package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// The parts of `bench users`, by the database that users are imported into.
const (
	partUsersSQLite   = "sqlite"
	partUsersMariaDB  = "mariadb"
	partUsersPostgres = "postgres"
)

var usersParts = []string{partUsersSQLite, partUsersMariaDB, partUsersPostgres}

const (
	usersCount      = 1_000_000
	usersCountQuick = 50_000
	usersRuns       = 3
	usersAskEvery   = 10 * time.Millisecond

	// What is promised of SQLite.
	wantUsersImported = 40_000 // a second
	wantUserAskedP99  = 0.03   // seconds
)

// runUsers is `sluice-bench users`: the program takes in a file of users that
// `sluice import users` reads. Meanwhile it is asked for one of them every 10
// ms.
func runUsers(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, r.does(partUsersMariaDB))
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	file := filepath.Join(e.dir, "users.ndjson")
	count := pick(r, int64(usersCount), usersCountQuick)
	size, err := writeUsers(file, count)
	if err != nil {
		return err
	}
	r.report.Settings["users"] = fmt.Sprintf("%d of %d bytes on average, 13 attributes, with an e-mail address; ids and addresses in no order; one asked for every %s", count, size/count, usersAskEvery)
	for _, part := range e.databases(ctx) {
		if !r.does(part.name) {
			continue
		}
		s, err := part.open()
		for n := 0; n < pick(r, usersRuns, 1) && err == nil; n++ {
			r.say("%s: %d users, run %d", part.name, count, n+1)
			err = e.importUsers(ctx, s, part.name, file, count)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	r.report.judge(target{ratio: "sqlite_users_per_s", value: wantUsersImported}, r.report.value("sqlite_imported"))
	r.report.limit("sqlite_asked_p99_s", "sqlite_asked_p99", wantUserAskedP99)
	return nil
}

// databases are those that users are kept in, each started when it is opened.
func (e *env) databases(ctx context.Context) []struct {
	name string
	open func() (database, error)
} {
	return []struct {
		name string
		open func() (database, error)
	}{
		{partUsersSQLite, func() (database, error) { return openSQLite(e) }},
		{partUsersMariaDB, func() (database, error) { return e.maria, nil }},
		{partUsersPostgres, func() (database, error) { return openPostgres(ctx, e) }},
	}
}

// benchUserID is the external id of the i-th user.
func benchUserID(i int64) string { return strconv.FormatUint(mix(uint64(i)), 16) }

// appendUser appends the i-th user: some 300 bytes.
func appendUser(b []byte, i int64) []byte {
	r := mix(mix(uint64(i)))
	name := givenNames[r%uint64(len(givenNames))]
	return fmt.Appendf(b, `{"external_id":"%s","email":"%s.%x@%s","first_name":"%s","last_name":"Sur%d","country":"AT","language":"de","time_zone":"Europe/Vienna",`+
		`"email_subscribe":"opted_in","plan":"%s","score":%d.5,"visits":%d,"paying":%t,"tags":["t%d","t%d"],"signed_up":"2026-%02d-%02d"}`,
		benchUserID(i), name, r>>32, mailDomains[r>>8%uint64(len(mailDomains))], name, r>>16%1000, [...]string{"free", "gold", "team"}[r>>5%3],
		r>>20%100, r>>24%1000, r&1 == 0, r>>4%20, 20+r>>9%20, 1+r>>12%12, 1+r>>28%28)
}

func writeUsers(file string, count int64) (size int64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, fmt.Errorf("write the file to import: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	buf := make([]byte, 0, 512)
	for i := range count {
		buf = append(appendUser(buf[:0], i), '\n')
		size += int64(len(buf))
		if _, err := w.Write(buf); err != nil {
			return 0, errors.Join(fmt.Errorf("write the file to import: %w", err), f.Close())
		}
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("write the file to import: %w", err)
	}
	return size, nil
}

// importUsers makes one run. The clock runs from the start of the command until
// the program has committed every user.
func (e *env) importUsers(ctx context.Context, s database, part, file string, count int64) (err error) {
	if err := errors.Join(s.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, s, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	asked, stop := context.WithCancel(ctx)
	defer stop()
	var latencies []latency
	group, groupCtx := errgroup.WithContext(asked)
	group.Go(func() (err error) {
		latencies, err = askForUsers(groupCtx, c, count)
		return err
	})
	before, err := c.cpuTime()
	if err != nil {
		return err
	}
	started := time.Now()
	command := exec.CommandContext(ctx, e.run.program, "import", "users", file, "--config", filepath.Join(c.cmd.Dir, "sluice.yaml"))
	command.Dir, command.Env, command.SysProcAttr = c.cmd.Dir, c.cmd.Env, childAttributes()
	if out, err := command.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("import users: %w: %s", err, out), c.dead())
	}
	read := time.Since(started)
	if err := c.await(ctx, "sluice_users_written_total", count); err != nil {
		return err
	}
	took := time.Since(started)
	stop()
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := c.cpuTime()
	if err != nil {
		return err
	}
	memory, err := c.peakMemoryMB()
	if err != nil {
		return err
	}
	var users int64
	if err := s.handle().QueryRowContext(ctx, "SELECT COUNT(*) FROM users").Scan(&users); err != nil || users != count {
		return fmt.Errorf("verify the import: %d users of %d: %w", users, count, err)
	}
	r := e.run.report
	rate := float64(count) / took.Seconds()
	r.add(part+"_imported", part+", users imported", "1/s", rate)
	r.add(part+"_read", part+", the file's way into the logs", "1/s", float64(count)/read.Seconds())
	r.add(part+"_asked_p50", part+", asked for a user meanwhile, median", "s", percentile(latencies, 0.5))
	r.add(part+"_asked_p99", part+", asked for a user meanwhile, p99", "s", percentile(latencies, 0.99))
	reading := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	r.add(part+"_cpu", part+", Sluice's computing for a user", "µs", float64((after-before).Microseconds())/float64(count))
	r.add(part+"_import_cpu", part+", the import's computing for a user", "µs", float64(reading.Microseconds())/float64(count))
	r.add(part+"_memory", part+", Sluice's peak memory", "MB", memory)
	e.run.say("%s: %s users/s, asked p99 %s s", part, number(rate), number(percentile(latencies, 0.99)))
	return nil
}

// askForUsers asks the program for users, one at a time, until ctx ends.
func askForUsers(ctx context.Context, c *child, count int64) (all []latency, err error) {
	for i := uint64(0); ; i++ {
		body := `{"external_ids":["` + benchUserID(int64(mix(i)%uint64(count))) + `"],"fields_to_export":["external_id","email","custom_attributes"]}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/users/export/ids", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+benchRootKey)
		request.Header.Set("Content-Type", "application/json")
		started := time.Now()
		answer, err := http1.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
		if ctx.Err() != nil {
			return all, nil
		}
		if err == nil && answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("it was answered %s", answer.Status)
		}
		if err != nil {
			return all, fmt.Errorf("ask for a user: %w", err)
		}
		all = append(all, latency{time.Since(started).Seconds(), 1})
		if pause(ctx, usersAskEvery) != nil {
			return all, nil
		}
	}
}
