package flow

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/test/proxy"
	"sluice/test/servers"
)

// dialThrough returns a server, a proxy before it, and a client through the
// proxy.
func dialThrough(t *testing.T) (server *servers.Redis, way *proxy.Proxy, through *Redis) {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	if way, err = proxy.New("unix", server.Socket()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	if through, err = Dial(t.Context(), "redis://"+way.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	return server, way, through
}

func logsOf(r *Redis, partitions int) []*Log {
	logs := make([]*Log, 0, partitions)
	for _, p := range Partitions(partitions) {
		logs = append(logs, NewLog(r, p))
	}
	return logs
}

func armed(t *testing.T, p *proxy.Proxy, rule proxy.Rule) *proxy.Armed {
	t.Helper()
	a, err := p.Arm(rule)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// namesIn returns the names of a log's events, in their order.
func namesIn(t *testing.T, l *Log) (names []string) {
	t.Helper()
	batches, err := l.Read(t.Context(), sluice.Position{}, 10_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		items, err := sluice.ReadBatch(b.Data)
		if err != nil {
			t.Fatal(err)
		}
		for items.Next() {
			var e sluice.Event
			if err := sluice.DecodeEvent(items.Item.Payload, &e); err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.Clone(e.Name))
		}
	}
	return names
}

// Connections break before Redis has seen a call, while it is sent, behind it
// and within its answer, and Redis is killed. Of several logs in a call, each
// has the entries that were answered as written, none twice, and each caller's
// in order.
func TestWriterRepeatsForEachLogOnce(t *testing.T) {
	server, way, through := dialThrough(t)
	const partitions, callers = 4, 8
	w := NewWriter(logsOf(through, partitions), "api:1", 1<<30)
	var stop atomic.Bool
	var answers atomic.Int64
	var wait sync.WaitGroup
	var written [callers][]bool // by number: answered so
	for c := range callers {
		wait.Go(func() {
			for n := 0; !stop.Load(); n++ {
				var parts []Part
				for p := range partitions {
					item := sluice.AppendEvent(nil, &sluice.Event{Name: fmt.Sprintf("%d-%d", c, n)})
					parts = append(parts, Part{p, item, 1})
				}
				err := w.Write(t.Context(), parts...)
				written[c] = append(written[c], err == nil)
				if err == nil {
					answers.Add(1)
				}
			}
		})
	}
	call := []byte("EVALSHA")
	for i := range 6 {
		for _, rule := range []proxy.Rule{
			{Direction: proxy.ToServer, Pattern: call, Moment: proxy.Before},
			{Direction: proxy.ToServer, Pattern: call, Moment: proxy.After},
			{Direction: proxy.ToServer, Pattern: call, Moment: proxy.Replied, ReplyBytes: 20 * i},
			{Direction: proxy.ToServer, Bytes: int64(1 + 150*i)},
		} {
			<-armed(t, way, rule).Fired()
			before := answers.Load()
			eventually(t, "all can be written again", func() bool { return answers.Load() > before+callers })
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wait.Wait()
	past, err := Dial(t.Context(), server.URL()) // no connection of before the last kill
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	for p, l := range logsOf(past, partitions) {
		var there [callers][]int
		for _, name := range namesIn(t, l) {
			var c, n int
			if _, err := fmt.Sscanf(name, "%d-%d", &c, &n); err != nil {
				t.Fatalf("log %d: %q: %v", p, name, err)
			}
			if before := there[c]; len(before) > 0 && n <= before[len(before)-1] {
				t.Errorf("log %d: %s comes behind %d of its caller", p, name, before[len(before)-1])
			}
			there[c] = append(there[c], n)
		}
		for c, answered := range written {
			for n, is := range answered {
				if is && !slices.Contains(there[c], n) {
					t.Errorf("log %d: %d-%d was answered and is not there", p, c, n)
				}
			}
		}
	}
}

// Where many logs must be asked how they stand, a Redis that hangs costs one
// wait, not one for each.
func TestWriterAsksAllLogsAtOnce(t *testing.T) {
	server, way, through := dialThrough(t)
	const partitions = 8
	w := NewWriter(logsOf(through, partitions), "api:1", testBacklogBytes)
	var parts []Part
	for p := range partitions {
		parts = append(parts, Part{p, eventOf(1), 1})
		w.open[p].unknown = true
	}
	for range 64 { // the client chooses among four connections, and makes one when it has chosen it
		if _, err := w.logs[0].Seq(t.Context(), "api:1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	asked := armed(t, way, proxy.Rule{Direction: proxy.ToServer, Pattern: []byte(w.logs[partitions-1].partition.sourcesKey()), Stall: true})
	answered := make(chan error, 1)
	go func() { answered <- w.Write(t.Context(), parts...) }()
	eventually(t, "the last log is asked while none answers", func() bool {
		select {
		case <-asked.Fired():
			return true
		default:
			return false
		}
	})
	way.Resume()
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// An answer that the script does not give is an error, of the log or of all.
func TestAppendReadsAnyAnswer(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	kept := scripts["append"]
	t.Cleanup(func() { scripts["append"] = kept })
	for _, answer := range []string{"{}", "5", "{5}", "{false}", "{{}}", "{{1}}", "{{-1}}", "{{'x','1-1',1}}", "{{1,'x',1}}", "{{1,'1-1'}}", "{{1,'1-1','x'}}", "{{1,'1-1',1},{1,'1-1',1}}"} {
		scripts["append"] = rueidis.NewLuaScript("return " + answer)
		if done, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false); err == nil {
			t.Errorf("%s is read as %+v", answer, done)
		}
	}
}
