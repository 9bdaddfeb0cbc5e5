package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// importing is a kind of no fault: files are sent to three processes.
var importing = kind{name: "import"}

const (
	importKills   = 5   // while the files are sent
	importSenders = 2   // of each file
	badEvery      = 800 // of so many lines one is refused
)

// manyFile is a file that several send at once, each piece to any of the processes.
type manyFile struct {
	r      *round
	client *http.Client
	id     string
	text   string
	lines  int64

	mu      sync.Mutex
	at      []string // URLs of the processes
	limit   int64    // no piece begins behind it for now
	reached int64    // the highest next_offset that was answered
}

// sendTo begins an import and returns what its senders share.
func (r *round) sendTo(kind string, text string, lines int) *manyFile {
	r.t.Helper()
	f := &manyFile{r: r, client: &http.Client{Timeout: 2 * requestWithin}, text: text, lines: int64(lines)}
	r.t.Cleanup(f.client.CloseIdleConnections)
	for _, p := range r.peers {
		f.at = append(f.at, p.at)
	}
	a := answered(r.ctx, func() imported {
		return callImport(f.client, "POST", f.at[0]+"/v1/imports", fmt.Sprintf(`{"name":"lines","kind":%q,"size":%d}`, kind, len(text)))
	})
	if f.id = a.ID; a.status != http.StatusCreated {
		r.t.Fatalf("begin an import: %d %s", a.status, a.said)
	}
	return f
}

// call asks any of the processes.
func (f *manyFile) call(random *rand.Rand, method, path, body string) imported {
	f.mu.Lock()
	at := f.at[random.IntN(len(f.at))]
	f.mu.Unlock()
	return callImport(f.client, method, at+"/v1/imports/"+f.id+path, body)
}

// progress asks any process how far the file is, until one answers: never less far than
// another has answered before.
func (f *manyFile) progress(random *rand.Rand) (a imported) {
	for f.r.ctx.Err() == nil {
		f.mu.Lock()
		reached := f.reached
		f.mu.Unlock()
		if a = f.call(random, "GET", "", ""); a.status == http.StatusOK {
			if a.NextOffset < reached {
				f.r.t.Errorf("the file is at %d, and %d was answered before", a.NextOffset, reached)
			}
			return a
		}
		pause(f.r.ctx, 20*time.Millisecond)
	}
	return a
}

// send sends what is left of the file, up to the limit for now, until all is sent.
func (f *manyFile) send(random *rand.Rand) {
	for want := int64(0); f.r.ctx.Err() == nil; {
		at := f.progress(random)
		f.mu.Lock()
		wait := at.NextOffset > f.limit
		f.mu.Unlock()
		switch {
		case at.NextOffset == int64(len(f.text)):
			return
		case wait:
			pause(f.r.ctx, 20*time.Millisecond)
			continue
		}
		size := max(want, 64<<10+random.Int64N(64<<10))
		want = 0
		switch a := f.call(random, "POST", fmt.Sprintf("/pieces?offset=%d", at.NextOffset), f.text[at.NextOffset:min(int64(len(f.text)), at.NextOffset+size)]); a.status {
		case http.StatusOK:
			want = a.WantBytes
			f.mu.Lock()
			f.reached = max(f.reached, a.NextOffset)
			f.mu.Unlock()
		case 0, http.StatusConflict, http.StatusServiceUnavailable: // it is dead, another was first, or Redis is awaited
		default:
			f.r.t.Errorf("a piece at %d: %d %s", at.NextOffset, a.status, a.said)
			return
		}
	}
}

// allow moves the limit, and moved waits until all has been sent up to there.
func (f *manyFile) allow(part, of int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = int64(len(f.text)) * int64(part) / int64(of)
}

func (f *manyFile) moved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached >= min(f.limit, int64(len(f.text)))
}

// restarted notes where a process listens now.
func (f *manyFile) restarted(process int, at string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[process] = at
}

// ended ends the import by all processes at once, waits until all is stored, and compares.
func (f *manyFile) ended(random *rand.Rand) {
	f.r.t.Helper()
	var finishing sync.WaitGroup
	for _, at := range f.at {
		finishing.Go(func() { // ends with its answer
			a := answered(f.r.ctx, func() imported { return callImport(f.client, "POST", at+"/v1/imports/"+f.id+"/finish", "") })
			if a.status != http.StatusOK || a.State != "done" {
				f.r.t.Errorf("finish: %d %s", a.status, a.said)
			}
		})
	}
	finishing.Wait()
	var a imported
	f.r.awaitOr("all is stored", func() bool { a = f.progress(random); return a.StillToBeStored == 0 }, func() string { return a.said })
	bad := (f.lines + badEvery - 1) / badEvery
	if a.Lines != f.lines || a.Taken != f.lines-bad || a.RefusedCount != bad || int64(len(a.Refused)) != bad {
		f.r.t.Errorf("of %d lines, %d of them bad: %s", f.lines, bad, a.said)
	}
	for i, l := range a.Refused {
		if l.Line != int64(i)*badEvery+1 {
			f.r.t.Errorf("line %d is refused", l.Line)
		}
	}
}

// importFiles are two files, each with a line that is refused of badEvery.
func importFiles(lines, people int) (events, users string) {
	var e, u strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		when, amount := strconv.FormatInt(start+int64(i), 10), "1"
		if i%badEvery == 0 {
			when, amount = `"soon"`, `99999999999999999999`
		}
		fmt.Fprintf(&e, "{\"event\":\"e\",\"user_id\":\"u%d\",\"ts\":%s}\n", i%people, when)
		fmt.Fprintf(&u, "{\"external_id\":\"u%d\",\"n\":{\"inc\":%s},\"filler\":\"%s\"}\n", i%people, amount, strings.Repeat("x", 20))
	}
	return e.String(), u.String()
}

// TestImportByThreeProcesses sends a file of events and one of users to three processes,
// each piece to any of them, by two senders at once, who ask any of them how far it is. A
// process after the other is killed meanwhile. Every line is applied once, what was answered
// is known to all, and each refused line is listed once. Then all undo at once, and another
// one is killed: no event is left.
func TestImportByThreeProcesses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{onMariaDB, onPostgres} {
		t.Run(base, func(t *testing.T) {
			p, random := planOf(1, "kill")
			p.kind, p.processes, p.redis, p.base, p.slow = importing, 3, onOne, base, false
			r := newRound(&recorder{T: t}, newRig(t, 0), p, random)
			for _, p := range r.peers {
				r.start(p, "")
			}
			r.allReady()
			const lines, people = 24_000, 97
			events, users := importFiles(lines, people)
			files := []*manyFile{r.sendTo("events", events, lines), r.sendTo("users", users, lines)}
			var sending sync.WaitGroup
			for i, f := range files {
				for n := range importSenders {
					sending.Go(func() { f.send(rand.New(rand.NewPCG(uint64(i), uint64(n)))) }) // ends at the end of the file
				}
			}
			for i := range importKills {
				r.killWhileSending(files, i)
			}
			for _, f := range files {
				f.allow(1, 1)
			}
			sending.Wait()
			r.allReady()
			for _, f := range files {
				f.ended(random)
			}
			r.checkImported(lines - (lines+badEvery-1)/badEvery)
			r.undoByAll(files[0])
		})
	}
}

// killWhileSending kills a process while the next part of the files is sent, waits until
// the others have it, and starts the process again.
func (r *round) killWhileSending(files []*manyFile, i int) {
	r.t.Helper()
	for _, f := range files {
		f.allow(i+1, importKills+1)
	}
	r.rest(0, 60*time.Millisecond)
	victim := i % len(r.peers)
	r.peers[victim].kill()
	r.await("the others take the next part", func() bool {
		return !slices.ContainsFunc(files, func(f *manyFile) bool { return !f.moved() })
	})
	r.start(r.peers[victim], "")
	for _, f := range files {
		f.restarted(victim, r.peers[victim].at)
	}
}

// checkImported compares what is stored with how many lines of each file are good.
func (r *round) checkImported(want int64) {
	r.t.Helper()
	r.drained()
	var sum int64
	for _, p := range r.profiles() {
		n, _ := strconv.ParseInt(p.Custom.Get("n"), 10, 64)
		sum += n
	}
	if rows := r.number("SELECT COUNT(*) FROM events WHERE name = 'e'"); rows != want || sum != want {
		r.t.Errorf("%d events and %d increments of %d", rows, sum, want)
	}
}

// undoByAll undoes an import by all processes at once, one of which is killed.
func (r *round) undoByAll(f *manyFile) {
	r.t.Helper()
	a := f.progress(r.random)
	stored := a.Taken
	var undoing sync.WaitGroup
	for _, at := range f.at {
		undoing.Go(func() { // ends with its answer
			callImport(f.client, "POST", at+"/v1/imports/"+f.id+"/undo", "")
		})
	}
	r.await("undoing has begun", func() bool { a = f.progress(r.random); return a.State != "done" })
	r.peers[1].kill()
	undoing.Wait()
	r.awaitOr("the import is undone", func() bool {
		a = f.call(r.random, "POST", "/undo", "")
		return a.State == "undone"
	}, func() string { return a.said })
	if n, counted := r.number("SELECT COUNT(*) FROM events WHERE name = 'e'"), r.number("SELECT COALESCE(SUM(count), 0) FROM series_days WHERE name = 'e'"); n != 0 || counted != 0 || a.Removed != stored {
		r.t.Errorf("%d events are left, %d are counted; %d removed of %d", n, counted, a.Removed, stored)
	}
}
