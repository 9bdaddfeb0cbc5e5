package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/test/servers"
	"sluice/user/profile"
)

const continued = syscall.SIGCONT

// kinds are the kinds of faults that rounds strike with.
func kinds() []kind {
	return append([]kind{
		{name: "kill", strike: strikeKill},
		{name: "cut-off", fits: several, strike: strikeCutOff},

		{name: "redis-away", strict: true, strike: strikeRedisAway},
		{name: "members-away", strict: true, fits: func(p *plan) { p.redis = onCluster }, strike: strikeMembersAway},
		{name: "receiver", strict: true, fits: func(p *plan) { several(p); p.slow = true }, strike: strikeReceiver},
		{name: "redis-back", losesRedis: true, failpoints: pausedCommit, strike: strikeRedisBack},
		{name: "sql-back", fits: onServer, table: true, strike: strikeSQLBack},
		{name: "sql-back-far", fits: onServer, table: true, config: smallMargin, strike: strikeSQLBackFar},
		{name: "below-cursor", losesRedis: true, fits: onServer, strike: strikeBelowCursor},
		{name: "sql-cut", fits: several, strike: strikeSQLCut},
		{name: "clock", strike: strikeClock},
		{name: "huge", fits: func(p *plan) { p.slow = false }, strike: strikeHuge},
	}, journeyKinds()...)
}

// several processes.
func several(p *plan) {
	p.processes = 3
	onServer(p)
}

// onServer takes a database that several processes can use.
func onServer(p *plan) {
	if p.base == onSQLite {
		p.base = []string{onMariaDB, onPostgres}[p.seed/8%2] // kinds take turns: each meets both
	}
}

// between is a random time.
func (r *round) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.random.Int64N(int64(most-least)))
}

func (r *round) rest(least, most time.Duration) { pause(r.ctx, r.between(least, most)) }

func (r *round) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// server is the database's; nil: there is none.
func (r *round) server() database {
	switch r.base {
	case onMariaDB:
		return r.rig.maria
	case onPostgres:
		return r.rig.postgres
	}
	return nil
}

// restart starts a node again; its users are in no file.
func (r *round) restart(node *servers.Redis) {
	r.t.Helper()
	r.do(node.Restart(r.ctx))
	for _, p := range r.peers {
		if r.clustered() {
			r.allow(p, true, node)
		}
	}
}

// request posts, and returns the status, 0 without an answer, and the answer.
func request(ctx context.Context, client *http.Client, url, body, key string) (status int, text []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+httpRoot)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	if text, err = io.ReadAll(res.Body); err != nil {
		return 0, nil
	}
	return res.StatusCode, text
}

// metric returns the value of a metric of a process as it is written, "" if there is
// no answer.
func (r *round) metric(p *peer, name string) string {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get(p.at + "/metrics")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), name+" "); is {
			return value
		}
	}
	return ""
}

// messageIDs reads the ids of the messages of an answer.
func messageIDs(text []byte) (ids []string) {
	var answer struct {
		Messages []struct{ ID string }
	}
	if json.Unmarshal(text, &answer) == nil {
		for _, m := range answer.Messages {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// ask posts to a process until it is answered as wanted.
func (r *round) ask(p *peer, path, body string, want int) []byte {
	r.t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	status, text := 0, []byte(nil)
	r.awaitOr(fmt.Sprintf("%s is answered %d", path, want), func() bool {
		status, text = request(r.ctx, client, p.at+path, body, "")
		return status == want
	}, func() string { return fmt.Sprintf("It is answered %d: %.300s", status, text) })
	return text
}

// logEnds are the ends of all logs, by partition.
func (r *round) logEnds(redis *flow.Redis) []sluice.Position {
	r.t.Helper()
	ends := make([]sluice.Position, roundPartitions)
	for _, p := range flow.Partitions(roundPartitions) {
		last, err := flow.NewLog(redis, p).Last(r.ctx)
		r.do(err)
		ends[p.Number] = last
	}
	return ends
}

// awaitStored waits until all that is in the logs now is stored.
func (r *round) awaitStored(redis *flow.Redis) {
	r.t.Helper()
	ends := r.logEnds(redis)
	r.await("what is in the logs is stored", func() bool {
		for p, end := range ends {
			if r.cursor("cursors", p).Before(end) {
				return false
			}
		}
		return true
	})
}

// awaitTabled waits until what has been pushed to the list with a table is in the
// table.
func (r *round) awaitTabled() {
	r.t.Helper()
	if r.kind.table {
		r.awaitPushed("the list with a table", &r.load.tabled, "SELECT ref FROM target")
	}
}

// awaitOpened waits until what has been pushed to the list of events is stored. It is in
// no log before its follower has read it, and so awaitStored does not wait for it.
func (r *round) awaitOpened() {
	r.t.Helper()
	r.awaitPushed("the list of events", &r.load.pushed, "SELECT message_ref FROM events WHERE name = 'opened'")
}

func (r *round) awaitPushed(list string, all *[]accepted, query string) {
	r.t.Helper()
	r.load.mu.Lock()
	pushed := slices.Clone(*all)
	r.load.mu.Unlock()
	r.await("what was pushed to "+list+" is stored", func() bool {
		stored := map[string]bool{}
		for _, ref := range r.texts(query) {
			stored[ref] = true
		}
		for _, a := range pushed {
			for i := range loadList {
				if !stored[fmt.Sprintf("%s-%d", a.what, i)] {
					return false
				}
			}
		}
		return true
	})
}

// cursor is where the store stands by a table of cursors.
func (r *round) cursor(table string, partition int) sluice.Position {
	query := fmt.Sprintf("SELECT %%s FROM %s WHERE follower = 'store' AND part = %d", table, partition)
	major, minor := r.number(fmt.Sprintf(query, "pos_major")), r.number(fmt.Sprintf(query, "pos_minor"))
	if major < 0 || minor < 0 {
		return sluice.Position{} // no answer, or it has applied nothing yet
	}
	return sluice.Position{Major: uint64(major), Minor: uint64(minor)}
}

// command runs a command of the program by the configuration of the first process.
func (r *round) command(args ...string) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, settleWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", r.peers[0].config)...)
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// drained waits until the store has applied all that is in the logs, and what it
// has forwarded.
func (r *round) drained() {
	r.t.Helper()
	redis, err := flow.Dial(r.ctx, r.redisURL)
	r.do(err)
	defer redis.Close()
	r.await("the logs are applied", func() bool { return r.applied(redis) })
	r.await("nothing is forwarded any more", func() bool { return r.number("SELECT COUNT(*) FROM forwards") == 0 })
	r.await("what was forwarded is applied", func() bool { return r.applied(redis) })
}

func (r *round) profiles() map[string]*profile.Profile { return profilesOf(r.t.T, r.db) }
