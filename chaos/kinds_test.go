package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/profile"
	"sluice/servers"
)

const continued = syscall.SIGCONT

// kinds are the kinds of faults that rounds strike with.
func kinds() []kind {
	return []kind{
		{name: "kill", strike: strikeKill},
		{name: "cut-off", fits: several, strike: strikeCutOff},

		{later: true, name: "redis-away", strict: true, strike: strikeRedisAway},
		{later: true, name: "members-away", strict: true, fits: func(p *plan) { p.clustered = true }, strike: strikeMembersAway},
		{later: true, name: "redis-back", losesRedis: true, failpoints: pausedCommit, strike: strikeRedisBack},
		{later: true, name: "sql-back", fits: onServer, strike: strikeSQLBack},
		{later: true, name: "below-cursor", losesRedis: true, fits: func(p *plan) { p.clustered = false }, strike: strikeBelowCursor},
		{later: true, name: "sql-cut", fits: func(p *plan) { several(p); onServer(p) }, strike: strikeSQLCut},
		{later: true, name: "huge", fits: func(p *plan) { p.slow = false }, strike: strikeHuge},
	}
}

// several processes.
func several(p *plan) {
	p.processes = 3
	onServer(p)
}

// onServer takes a database that several processes can use.
func onServer(p *plan) {
	if p.base == onSQLite {
		p.base = []string{onMariaDB, onPostgres}[p.seed%2]
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

// strikeKill kills processes, Redis (one node of it) and the database, with kill
// -9, at random instants.
func strikeKill(r *round) {
	for range 4 {
		r.rest(0, 1500*time.Millisecond)
		switch n := r.random.IntN(10); {
		case n < 6:
			p := r.peers[r.random.IntN(len(r.peers))]
			p.kill()
			r.start(p, "")
		case n < 8:
			node := r.nodes[r.random.IntN(len(r.nodes))]
			r.do(node.Kill())
			r.rest(0, 500*time.Millisecond)
			r.restart(node)
		default:
			server := r.server()
			if server == nil {
				continue
			}
			r.do(server.Kill())
			r.do(server.Restart(r.ctx))
		}
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

// strikeRedisAway takes all of Redis away for 1 to 20 s, in one of several ways.
func strikeRedisAway(r *round) { r.away(r.nodes, r.between(time.Second, 20*time.Second)) }

// strikeMembersAway takes away the node alone that has what the processes know of
// each other.
func strikeMembersAway(r *round) {
	r.away(r.nodes[len(r.nodes)-1:], r.between(time.Second, 20*time.Second))
}

// away takes servers away for a time: frozen, killed, unreachable, or silent.
func (r *round) away(nodes []*servers.Redis, how time.Duration) {
	ways := 2
	if !r.clustered {
		ways = 4
	}
	way := r.random.IntN(ways)
	r.t.Logf("%d servers away for %s: %s", len(nodes), how.Round(time.Millisecond), []string{"frozen", "killed", "unreachable", "silent"}[way])
	for _, node := range nodes {
		switch way {
		case 0:
			r.do(node.Pause())
		case 1:
			r.do(node.Kill())
		}
	}
	for _, p := range r.peers {
		switch way {
		case 2:
			p.redis.Refuse(true)
			p.redis.Cut()
		case 3:
			p.redis.Stall()
		}
	}
	pause(r.ctx, how)
	for _, node := range nodes {
		switch way {
		case 0:
			r.do(node.Continue())
		case 1:
			r.restart(node)
		}
	}
	for _, p := range r.peers {
		if way >= 2 {
			p.redis.Refuse(false)
			p.redis.Resume()
		}
	}
}

// restart starts a node again; who may use it is in no file.
func (r *round) restart(node *servers.Redis) {
	r.t.Helper()
	r.do(node.Restart(r.ctx))
	for _, p := range r.peers {
		if r.clustered {
			r.allow(p, true, node)
		}
	}
}

// strikeCutOff cuts one process off from Redis, beyond the time of its leases,
// while the others go on.
func strikeCutOff(r *round) {
	p, how := r.peers[r.random.IntN(len(r.peers))], r.between(flow.LeaseTimeout, 4*flow.LeaseTimeout)
	switch {
	case r.clustered:
		r.allow(p, false, r.nodes...)
	case r.random.IntN(2) == 0:
		p.redis.Stall()
	default:
		p.redis.Refuse(true)
		p.redis.Cut()
	}
	pause(r.ctx, how)
	if r.clustered {
		r.allow(p, true, r.nodes...)
		return
	}
	p.redis.Refuse(false)
	p.redis.Resume()
}

// snapshotRedis copies the files of all nodes while they run: what a replica
// that lags has.
func (r *round) snapshotRedis(name string) {
	r.t.Helper()
	for i := range r.nodes {
		r.do(copyTree(r.redisFiles(i), filepath.Join(r.dir, fmt.Sprintf("%s%d", name, i))))
	}
}

// redisFiles are the files of a node.
func (r *round) redisFiles(i int) string { return filepath.Join(r.nodes[i].Dir(), "appendonlydir") }

// putBackRedis kills all nodes and starts them on what was copied. What was
// accepted since the copy began may be lost, and mail that waited by the ledger
// may have left.
func (r *round) putBackRedis(name string) {
	r.t.Helper()
	for _, node := range r.nodes {
		r.do(node.Kill())
	}
	for _, id := range r.texts("SELECT message FROM sends WHERE state = 'waiting'") {
		r.repeatable[id] = true
	}
	for i, node := range r.nodes {
		r.do(copyTree(filepath.Join(r.dir, fmt.Sprintf("%s%d", name, i)), r.redisFiles(i)))
		r.restart(node)
	}
	if r.clustered {
		r.do(r.cluster.Await(r.ctx))
	}
	r.lossTo = time.Now()
}

// pausedCommit has the first process stop before one of its commits, while a
// file is not there.
func pausedCommit(r *round) string {
	return fmt.Sprintf("commit=pause:%s,%d", filepath.Join(r.dir, "go-on"), 25+r.random.IntN(20))
}

// strikeRedisBack puts Redis back while a transaction of the store is open, which
// is then committed.
func strikeRedisBack(r *round) {
	goOn := filepath.Join(r.dir, "go-on")
	var began [2]time.Time
	turn := 0
	r.await("a transaction of the store is open", func() bool {
		began[turn%2] = time.Now()
		r.snapshotRedis(fmt.Sprint("snapshot", turn%2))
		turn++
		_, err := os.Stat(goOn + ".reached")
		return err == nil && turn >= 2
	})
	r.lossFrom = began[turn%2] // of the older one
	r.putBackRedis(fmt.Sprint("snapshot", turn%2))
	r.rest(100*time.Millisecond, 1500*time.Millisecond)
	r.do(os.WriteFile(goOn, nil, 0o600))
}

// strikeSQLBack puts the database back by up to four seconds, as a failover to a
// replica that lags does.
func strikeSQLBack(r *round) {
	r.do(snapshotSQL(r.ctx, r.db, r.base, r.name))
	r.rest(500*time.Millisecond, 4*time.Second)
	for _, p := range r.peers {
		p.base.Refuse(true)
		p.base.Cut()
	}
	r.await("no process has a session", func() bool {
		for _, p := range r.peers {
			if p.base.Connections() > 0 {
				return false
			}
		}
		return true
	})
	r.do(putBackSQL(r.ctx, r.db, r.base, r.name))
	for _, p := range r.peers {
		p.base.Refuse(false)
	}
}

// strikeBelowCursor fails over to a replica that lags and whose clock is behind:
// the ids that it gives are below those that the database has applied.
func strikeBelowCursor(r *round) {
	r.lossFrom = time.Now()
	r.snapshotRedis("snapshot")
	const ahead = `
local tail = redis.call('HGET', KEYS[2], '@tail') or '0-0'
local id = redis.call('XADD', KEYS[1], ARGV[1], 'prev', tail, 'batch', '\1\1\0\0\0\3')
redis.call('HSET', KEYS[2], '@tail', id)
return id`
	logs, err := r.client.Do(r.ctx, r.client.B().Keys().Pattern("sluice:{p*}:log").Build()).AsStrSlice()
	r.do(err)
	at := time.Now().Add(10 * time.Minute).UnixMilli()
	for _, log := range logs {
		sources := strings.TrimSuffix(log, "log") + "sources"
		r.do(r.client.Do(r.ctx, r.client.B().Eval().Script(ahead).Numkeys(2).Key(log, sources).Arg(fmt.Sprintf("%d-0", at)).Build()).Error())
	}
	r.await("the database has applied what is ahead", func() bool {
		return r.number(fmt.Sprintf("SELECT COUNT(*) FROM cursors WHERE follower = 'store' AND pos_major >= %d", at)) >= int64(len(logs))
	})
	r.putBackRedis("snapshot")
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

// strikeSQLCut cuts one process off from the database, lets those unsubscribe
// whose mail waits in the lanes, and lets it go. None of them may get it.
func strikeSQLCut(r *round) {
	const addresses = 40
	cut, other := r.peers[0], r.peers[1]
	r.ask(other, "/v1/sending/pause", stopMarketing, http.StatusOK)
	ids := messageIDs(r.ask(other, "/v1/messages", mails("leaver", addresses, ""), http.StatusAccepted))
	const inLedger = "SELECT COUNT(*) FROM sends WHERE to_address LIKE 'leaver%'"
	r.await("their mail is in the ledger", func() bool { return r.number(inLedger) == addresses })
	cut.base.Refuse(true)
	cut.base.Cut()
	var leave strings.Builder
	for i := range addresses {
		fmt.Fprintf(&leave, `,{"event":"unsubscribed","kind":"mail","email":"leaver%d@example.net"}`, i)
	}
	r.ask(other, "/v1/events", "["+leave.String()[1:]+"]", http.StatusAccepted)
	// Those whose partition the cut process stores wait until another takes it.
	r.await("the database knows who has left", func() bool {
		return r.number("SELECT COUNT(*) FROM suppressions WHERE entry LIKE 'leaver%'") == addresses
	})
	pause(r.ctx, staleAfter)
	r.ask(other, "/v1/sending/resume", stopMarketing, http.StatusOK)
	r.rest(2*time.Second, 4*time.Second)
	cut.base.Refuse(false)
	r.checks = append(r.checks, func() {
		for _, id := range ids {
			if n := r.relay.Counts()["<"+id+"@example.com>"]; n > 0 {
				r.t.Errorf("mail %s left %d times, though who should get it has unsubscribed %s before", id, n, staleAfter)
			}
		}
	})
}

// staleAfter is after what time a list of who must not be mailed is too old for
// marketing mail, and a little more.
const staleAfter = 6 * time.Second

// strikeHuge sends requests at the bounds of what is allowed: whatever of them
// is accepted has to be carried out, and all else has to go on.
func strikeHuge(r *round) {
	// All in one partition: the most that one commit can be asked for.
	recipients := func(n int) string {
		var b strings.Builder
		for i := 0; n > 0; i++ {
			if address := fmt.Sprintf("huge%d@example.net", i); sluice.SendPartition(address, roundPartitions) == 0 {
				fmt.Fprintf(&b, ",%q", address)
				n--
			}
		}
		return "[" + b.String()[1:] + "]"
	}
	message := func(n int, text string) string {
		return fmt.Sprintf(`{"from":"shop@example.com","to":%s,"subject":"order","text":%q,"class":"transactional"}`, recipients(n), text)
	}
	four := message(300, strings.Repeat("hello you ", 350))
	bodies := []string{
		"[" + strings.Join([]string{four, four, four, four}, ",") + "]",
		"[" + message(1000, strings.Repeat("x", 4000)) + "]",
		"[" + message(1, strings.Repeat("large ", 1<<19)) + "]",
	}
	want := 0
	first := r.random.IntN(len(bodies))
	for i, key := range []string{"", "huge"} { // in parts of its own, or all at once
		body := bodies[(first+i)%len(bodies)]
		if first == 0 {
			body = bodies[0]
		}
		client := &http.Client{Timeout: 60 * time.Second}
		status, text := request(r.ctx, client, r.peers[0].at+"/v1/messages", body, key)
		client.CloseIdleConnections()
		var answer struct{ Messages []struct{ Recipients int } }
		_ = json.Unmarshal(text, &answer)
		for _, m := range answer.Messages {
			want += m.Recipients
		}
		if status != http.StatusAccepted && (status < 400 || status >= 500) {
			r.t.Errorf("a request of %d bytes is answered %d: %.300s", len(body), status, text)
		}
		r.t.Logf("a request of %d bytes is answered %d", len(body), status)
	}
	r.rest(time.Second, 2*time.Second)
	r.checks = append(r.checks, func() {
		if n := r.number("SELECT COUNT(*) FROM sends WHERE to_address LIKE 'huge%'"); n != int64(want) {
			r.t.Errorf("%d sends of huge requests were accepted, the ledger has %d", want, n)
		}
		if n := r.number("SELECT COUNT(*) FROM sends WHERE to_address LIKE 'huge%' AND state <> 'sent'"); n != 0 {
			r.t.Errorf("%d sends of huge requests have not been sent", n)
		}
	})
}

// drained waits until the store has applied all that is in the logs, and what it
// has forwarded.
func (r *round) drained() {
	r.t.Helper()
	redis, err := flow.Dial(r.ctx, r.nodes[0].URL())
	r.do(err)
	defer redis.Close()
	r.await("the logs are applied", func() bool { return r.applied(redis) })
	r.await("nothing is forwarded any more", func() bool { return r.number("SELECT COUNT(*) FROM forwards") == 0 })
	r.await("what was forwarded is applied", func() bool { return r.applied(redis) })
}

func (r *round) profiles() map[string]*profile.Profile { return profilesOf(r.t, r.db) }
