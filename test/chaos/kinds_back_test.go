package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
)

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
	r.lossTo = time.Now() // what is accepted from now on, only the Redis accepts that comes
	r.noteEnded()
	for i, node := range r.nodes {
		r.do(copyTree(filepath.Join(r.dir, fmt.Sprintf("%s%d", name, i)), r.redisFiles(i)))
		r.restart(node)
	}
	if r.clustered() {
		r.do(r.cluster.Await(r.ctx))
	}
}

// noteEnded notes which mail has ended by the database, when Redis loses what it has.
func (r *round) noteEnded() {
	r.t.Helper()
	r.ended = map[string]bool{}
	for _, id := range r.texts("SELECT message FROM sends WHERE state <> 'waiting'") {
		r.ended[id] = true
	}
}

// pausedCommit has the first process stop before one of its commits, while a
// file is not there.
func pausedCommit(r *round) string {
	return fmt.Sprintf("commit=pause:%s,%d", filepath.Join(r.dir, "go-on"), 25+r.random.IntN(20))
}

// strikeRedisBack puts Redis back while a transaction of the store is open.
// That is committed after lanes and ledger could have been compared, and before
// the server ends the session.
func strikeRedisBack(r *round) {
	const kept = 2
	goOn := filepath.Join(r.dir, "go-on")
	var began [kept]time.Time
	var reached time.Time
	turn := 0
	r.await("a transaction of the store is open", func() bool {
		began[turn%kept] = time.Now()
		r.snapshotRedis(fmt.Sprint("snapshot", turn%kept))
		turn++
		found, err := os.Stat(goOn + ".reached")
		if err == nil {
			reached = found.ModTime()
		}
		return err == nil && turn >= kept
	})
	oldest := turn % kept
	if began[oldest].After(reached) {
		r.t.Log("the transaction was open before the copy began: this round shows little")
	}
	r.lossFrom = began[oldest]
	r.putBackRedis(fmt.Sprint("snapshot", oldest))
	pause(r.ctx, time.Until(reached.Add(r.between(1500*time.Millisecond, 1900*time.Millisecond))))
	r.do(os.WriteFile(goOn, nil, 0o600))
}

// snapshotSQL copies the database. What was accepted a moment ago may be in it, or
// follow it in the logs.
func (r *round) snapshotSQL() {
	r.t.Helper()
	r.bodiesFrom = time.Now()
	r.do(snapshotSQL(r.ctx, r.db, r.base, r.name))
}

// putBackSQL puts the database back as it was copied. No process has a session
// meanwhile.
func (r *round) putBackSQL() {
	r.t.Helper()
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
	r.bodiesTo = time.Now()
	r.do(putBackSQL(r.ctx, r.db, r.base, r.name))
	for _, p := range r.peers {
		p.base.Refuse(false)
	}
}

// strikeSQLBack puts the database back by up to four seconds, as a failover to a
// replica that lags does.
func strikeSQLBack(r *round) {
	r.snapshotSQL()
	r.rest(500*time.Millisecond, 4*time.Second)
	r.putBackSQL()
}

// smallMargin is as little as the logs can keep of what is applied.
const smallMargin = "log_margin_megabytes: 1\n"

// strikeSQLBackFar puts the database back further than the logs reach. An
// operator accepts the gaps while the processes run. What was accepted in
// between may be lost; everything else is there, nothing waits for ever, and
// nothing becomes a dead letter.
func strikeSQLBackFar(r *round) {
	redis, err := flow.Dial(r.ctx, r.nodes[0].URL())
	r.do(err)
	defer redis.Close()
	r.lossFrom = time.Now()
	r.awaitStored(redis)
	r.awaitOpened()
	r.awaitTabled()
	r.snapshotSQL()
	filler := strings.Repeat("x", 8000)
	r.await("the logs have removed what follows the copy", func() bool {
		var b strings.Builder
		for i := range 50 {
			fmt.Fprintf(&b, `,{"event":"filler","app_id":"shop","user_id":"filler%d","properties":{"text":%q}}`, i, filler)
		}
		r.ask(r.peers[0], "/v1/events", "["+b.String()[1:]+"]", 202)
		return r.gapsTo(r.snapshotTable("cursors")) == roundPartitions
	})
	r.putBackSQL()
	r.lossTo = r.bodiesTo
	accepted := map[string]bool{}
	r.awaitOr("somebody has accepted the gap of each partition", func() bool {
		out, err := r.command("gaps", "accept", "--all")
		for line := range strings.Lines(out) {
			what, _, found := strings.Cut(line, "  from ")
			if found && err == nil && strings.Contains(what, "log of partition") { // the list may stand still as well
				accepted[what] = true
			}
		}
		return len(accepted) >= roundPartitions
	}, func() string { out, _ := r.command("gaps", "list"); return out })
	r.await("no follower stands still any more, nor at the list", func() bool {
		out, err := r.command("gaps", "list")
		if err == nil && strings.Contains(out, "nothing is missing") {
			return true
		}
		_, _ = r.command("gaps", "accept", "--all") // what has been found since
		return false
	})
	r.awaitStored(redis)
}

// logKeys are the keys of the logs in Redis, by partition, once each has been
// written to.
func (r *round) logKeys() (all map[int]string) {
	r.t.Helper()
	r.await("each log has been written to", func() bool {
		all = r.logKeysNow()
		return len(all) == roundPartitions
	})
	return all
}

func (r *round) logKeysNow() map[int]string {
	r.t.Helper()
	all := map[int]string{}
	for _, node := range r.nodes {
		client, err := dialNode(node, false)
		r.do(err)
		keys, err := client.Do(r.ctx, client.B().Keys().Pattern("sluice:{p*}:log").Build()).AsStrSlice()
		client.Close()
		r.do(err)
		for _, key := range keys {
			number, _, _ := strings.Cut(strings.TrimPrefix(key, "sluice:{p"), ".")
			p, err := strconv.Atoi(number)
			r.do(err)
			all[p] = key
		}
	}
	return all
}

// snapshotTable is a table of the copy.
func (r *round) snapshotTable(name string) string {
	if r.base == onPostgres {
		return "snapshot." + name
	}
	return r.name + "_snapshot." + name
}

// gapsTo is how many logs lack something that follows the cursors in a table.
func (r *round) gapsTo(cursors string) (gaps int) {
	r.t.Helper()
	for p, key := range r.logKeys() {
		first, err := r.client.Do(r.ctx, r.client.B().Xrange().Key(key).Start("-").End("+").Count(1).Build()).AsXRange()
		r.do(err)
		if len(first) == 0 {
			continue
		}
		prev, err := sluice.ParsePosition(first[0].FieldValues["prev"])
		r.do(err)
		if r.cursor(cursors, p).Before(prev) {
			gaps++
		}
	}
	return gaps
}

// strikeBelowCursor fails over to a replica that lags and has a clock that is
// behind. The ids that it issues are below those that the database has applied.
// The database answers late, so that processes write before a store could look
// at its cursors.
func strikeBelowCursor(r *round) {
	logs := r.logKeys()
	r.lossFrom = time.Now()
	r.snapshotRedis("snapshot")
	const ahead = `
local tail = redis.call('HGET', KEYS[2], '@tail') or '0-0'
local id = redis.pcall('XADD', KEYS[1], ARGV[1], 'prev', tail, 'batch', '\1\1\0\0\0\3')
if type(id) == 'table' then return tail end -- it is there already: the call was repeated
redis.call('HSET', KEYS[2], '@tail', id)
return id`
	at := time.Now().Add(10 * time.Minute).UnixMilli()
	for _, log := range logs {
		sources := strings.TrimSuffix(log, "log") + "sources"
		r.do(r.client.Do(r.ctx, r.client.B().Eval().Script(ahead).Numkeys(2).Key(log, sources).Arg(fmt.Sprintf("%d-0", at)).Build()).Error())
	}
	r.await("the database has applied what is ahead", func() bool {
		return r.number(fmt.Sprintf("SELECT COUNT(*) FROM cursors WHERE follower = 'store' AND pos_major >= %d", at)) >= roundPartitions
	})
	for _, p := range r.peers {
		p.base.Delay(databaseLate)
	}
	r.putBackRedis("snapshot")
	before := r.load.counts()[0]
	r.await("something is accepted", func() bool { return r.load.counts()[0] > before+5 })
	for _, p := range r.peers {
		p.base.Delay(0)
	}
}

// databaseLate is how late each thing that the database says or is told comes. A
// writer asks it for the cursors first, and has two seconds for that.
const databaseLate = 150 * time.Millisecond
