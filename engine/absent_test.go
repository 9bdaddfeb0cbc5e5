package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/test/logtest"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/tables"
)

// beside is a Redis of a test, with arguments of its own.
func beside(t *testing.T, listen string, extra ...string) *servers.Redis {
	t.Helper()
	r, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec", Listen: listen, Extra: extra})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(context.Background()) })
	return r
}

// redisDo sends a command to a server.
func redisDo(t *testing.T, url string, words ...string) {
	t.Helper()
	r, err := flow.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Do(t.Context(), "do for a test", r.B().Arbitrary(words...).Build()); err != nil {
		t.Fatal(err)
	}
}

// pushEvents pushes events of a name, which have no ids: one that is taken twice is two.
func pushEvents(t *testing.T, url, list, name string, count int) {
	t.Helper()
	words := []string{"RPUSH", list}
	for n := range count {
		words = append(words, fmt.Sprintf(`{"event": %q, "user_id": "u-%d", "time": %d}`, name, n, time.Now().Unix()))
	}
	redisDo(t, url, words...)
}

func stopServer(t *testing.T, r *servers.Redis) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func restartServer(t *testing.T, r *servers.Redis) {
	t.Helper()
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// started is an engine on a main Redis and an SQLite of its own, and what it logs.
type started struct {
	*engine.Engine
	log    *logtest.Buffer
	config *config.Config
	main   string
}

// tryStart opens an engine, which has the list "here" on its main Redis.
func tryStart(t *testing.T, set func(*config.Config)) (*started, error) {
	t.Helper()
	s := &started{log: &logtest.Buffer{}, config: config.Default(), main: beside(t, "").URL()}
	file := filepath.Join(t.TempDir(), "sluice.db")
	tables.Make(t, file)
	c := s.config
	c.Data, c.Listen, c.Partitions, c.StartSeconds = t.TempDir(), "127.0.0.1:0", 2, 0
	c.Redis, c.Database, c.RootKey = config.URL(s.main), config.URL("sqlite:"+file), config.Secret(rootKey)
	c.Lists = []config.List{{Name: "here", Take: config.TakeLeft}}
	set(c)
	e, err := engine.Open(t.Context(), engine.Options{Config: c, Log: slog.New(slog.NewTextHandler(s.log, nil))})
	s.Engine = e
	if err == nil {
		t.Cleanup(func() {
			if err := e.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

// start is tryStart that succeeds.
func start(t *testing.T, set func(*config.Config)) *started {
	t.Helper()
	s, err := tryStart(t, set)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	return s
}

// worksOn makes sure that the program does the rest of its work, and tells of an input.
func (s *started) worksOn(t *testing.T, input string) {
	t.Helper()
	pushEvents(t, s.main, "here", "here", 20)
	await(t, "the other list is stored", func() bool { return countedByName(t, s.Engine)["here"] == 20 })
	var err error
	defer func() { t.Log(err) }()
	await(t, "readiness names "+input+" alone", func() bool {
		err = s.Ready()
		return err != nil && strings.Contains(err.Error(), "redis: "+input+": ") && !strings.Contains(err.Error(), "list here")
	})
	if log := s.log.String(); !strings.Contains(log, "a server does not answer: the program starts without") {
		t.Errorf("the start has said:\n%s", log)
	}
	await(t, "its follower fails, of which alerts tell", func() bool {
		for _, failing := range s.Stats().Failing {
			if failing {
				return true
			}
		}
		return false
	})
}

// whole waits until nothing is wrong any more.
func (s *started) whole(t *testing.T) {
	t.Helper()
	await(t, "all is as it should be", func() bool { return s.Ready() == nil })
	for name, failing := range s.Stats().Failing {
		if failing {
			t.Errorf("%s fails", name)
		}
	}
}

// TestAStartWithoutTheServerOfAList: its server is dead. The program does the rest, and
// takes the list in when the server is back, each element once.
func TestAStartWithoutTheServerOfAList(t *testing.T) {
	other := beside(t, "")
	pushEvents(t, other.URL(), "away", "away", 10)
	stopServer(t, other)
	s := start(t, func(c *config.Config) {
		c.Lists = append([]config.List{{Name: "away", Take: config.TakeLeft, Redis: config.URL(other.URL())}}, c.Lists...)
	})
	s.worksOn(t, "list away")
	if lists := s.Stats().Lists; len(lists) != 2 || lists[0].Name != "away" || lists[0].Waiting != -1 || lists[0].Held != -1 {
		t.Errorf("the lists are %+v", lists)
	}
	restartServer(t, other)
	await(t, "what was in the list is stored", func() bool { return countedByName(t, s.Engine)["away"] >= 10 })
	s.whole(t)
	pushEvents(t, other.URL(), "away", "away", 10)
	pushEvents(t, other.URL(), "away", "last", 1)
	await(t, "all is stored", func() bool { return countedByName(t, s.Engine)["last"] == 1 })
	if n := countedByName(t, s.Engine)["away"]; n != 20 {
		t.Errorf("%d elements are stored, want 20", n)
	}
	if held := s.Stats().Leases["intake"]; held != 2 {
		t.Errorf("it drains %d lists", held)
	}
}

// count marks a hash of counters, as producers do.
func count(t *testing.T, url, name string, by int) {
	t.Helper()
	now := time.Now().UTC()
	key := "shop|" + now.Format(time.DateOnly) + "|" + name
	redisDo(t, url, "HINCRBY", key, fmt.Sprint(now.Hour()), fmt.Sprint(by))
	redisDo(t, url, "SADD", "buffered", key)
}

// TestAStartWithoutAServerOfHashes: of three addresses of hashes two are dead, and both of
// these are of one server. When it is back, its counts are taken once, by one of them, and
// the other one is an error until it is mended.
func TestAStartWithoutAServerOfHashes(t *testing.T) {
	alive, other := beside(t, ""), beside(t, "tcp")
	count(t, other.URL(), "away", 7)
	socket := other.Redis.URL() // the same server
	stopServer(t, other)
	s := start(t, func(c *config.Config) {
		c.Hashes = []config.Hashes{{Dirty: "buffered", Key: "{app_id}|{date}|{name}", Field: config.FieldHour, Zone: "UTC",
			Redis: []config.URL{config.URL(alive.URL()), config.URL(other.URL()), config.URL(socket)}}}
	})
	count(t, alive.URL(), "alive", 5)
	await(t, "the counts of the living server are stored", func() bool { return countedByName(t, s.Engine)["alive"] == 5 })
	s.worksOn(t, "hashes of set buffered")
	restartServer(t, other)
	await(t, "the counts of the other server are stored", func() bool { return countedByName(t, s.Engine)["away"] == 7 })
	var err error
	await(t, "the second name of one server is an error", func() bool {
		err = s.Ready()
		return err != nil && strings.Contains(err.Error(), "has the same hashes as a server before it") && strings.Contains(s.log.String(), "level=ERROR")
	})
	count(t, other.URL(), "away", 1)
	count(t, other.URL(), "last", 1)
	await(t, "further counts are stored", func() bool { return countedByName(t, s.Engine)["last"] == 1 })
	if n := countedByName(t, s.Engine)["away"]; n != 8 {
		t.Errorf("%d is counted, want 8", n)
	}
}

// TestAStartWithoutTheServerOfASet: what is in it is suppressed when its server is back. One
// that is away later fails, until it is back.
func TestAStartWithoutTheServerOfASet(t *testing.T) {
	other := beside(t, "")
	redisDo(t, other.URL(), "SADD", "bad", "bad.example")
	stopServer(t, other)
	s := start(t, func(c *config.Config) {
		c.SuppressionSets = []config.SuppressionSet{{Name: "bad", Redis: config.URL(other.URL()), Reason: "bad_domain"}}
	})
	s.worksOn(t, "suppression set bad")
	restartServer(t, other)
	await(t, "its member is suppressed", func() bool { return s.Stats().Suppressed == 1 })
	s.whole(t)
	stopServer(t, other)
	await(t, "it is told that the set fails", func() bool { return s.Stats().Failing["set:bad"] })
	if warnings := strings.Join(s.Warnings(), "\n"); !strings.Contains(warnings, "suppression set bad cannot be read") {
		t.Errorf("it warns of %q", warnings)
	}
	if err := s.Ready(); err != nil {
		t.Errorf("without the set all is taken in, stored and sent, and it is not ready: %v", err)
	}
	restartServer(t, other)
	await(t, "it fails no more", func() bool { return !s.Stats().Failing["set:bad"] })
	s.whole(t)
}

// TestAStartWithAWrongServer: a server that answers, and cannot be worked with, refuses the
// start at once.
func TestAStartWithAWrongServer(t *testing.T) {
	other := beside(t, "tcp", "--requirepass", "right")
	locked := config.URL("redis://:wrong@" + other.Addr())
	replica := beside(t, "tcp", "--replicaof", "127.0.0.1 "+strings.TrimPrefix(other.Addr(), "127.0.0.1:"), "--masterauth", "right")
	for name, test := range map[string]struct {
		set  func(*config.Config)
		want string
	}{
		"the password of a list": {func(c *config.Config) {
			c.Lists = append(c.Lists, config.List{Name: "locked", Take: config.TakeLeft, Redis: locked})
		}, "list locked: connect to redis redis://:xxxxx@"},
		"the password of hashes": {func(c *config.Config) {
			c.Hashes = []config.Hashes{{Dirty: "locked", Key: "{date}|{name}", Field: config.FieldHour, Zone: "UTC", Redis: []config.URL{locked}}}
		}, "hashes of set locked: connect to redis redis://:xxxxx@"},
		"the password of a set": {func(c *config.Config) {
			c.SuppressionSets = []config.SuppressionSet{{Name: "locked", Redis: locked, Reason: "bad_domain"}}
		}, "suppression set locked: connect to redis redis://:xxxxx@"},
		"a replica": {func(c *config.Config) {
			c.Lists = append(c.Lists, config.List{Name: "copy", Take: config.TakeLeft, Redis: config.URL(replica.URL())})
		}, "is a replica of"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryStart(t, test.set)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the start says %v, want %q", err, test.want)
			}
		})
	}
}

// TestAWrongServerThatComesLater: a server that was dead at the start is back and refuses the
// password. That is an error of its list alone, and is tried again until it is mended.
func TestAWrongServerThatComesLater(t *testing.T) {
	other := beside(t, "tcp", "--requirepass", "right")
	stopServer(t, other)
	s := start(t, func(c *config.Config) {
		c.Lists = append(c.Lists, config.List{Name: "locked", Take: config.TakeLeft, Redis: config.URL("redis://:wrong@" + other.Addr())})
	})
	s.worksOn(t, "list locked")
	restartServer(t, other)
	await(t, "it says that the password is wrong", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "WRONGPASS") && strings.Contains(s.log.String(), "level=ERROR")
	})
	redisDo(t, "redis://:right@"+other.Addr(), "CONFIG", "SET", "requirepass", "wrong")
	pushEvents(t, "redis://:wrong@"+other.Addr(), "locked", "locked", 3)
	await(t, "the list is stored", func() bool { return countedByName(t, s.Engine)["locked"] == 3 })
	s.whole(t)
}

// TestAStartBesideAServerThatHangs: a server that takes connections and does not answer is as
// one that is away. The program runs, takes it in when it answers, and stops while it does
// not.
func TestAStartBesideAServerThatHangs(t *testing.T) {
	other := beside(t, "")
	way, err := proxy.New(other.Network(), other.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	hangs := func(c *config.Config) {
		c.Lists = append(c.Lists, config.List{Name: "hangs", Take: config.TakeLeft, Redis: config.URL("redis://" + way.Addr())})
		c.SuppressionSets = []config.SuppressionSet{{Name: "bad", Redis: config.URL("redis://" + way.Addr()), Reason: "bad_domain"}}
	}
	pushEvents(t, other.URL(), "hangs", "hangs", 3)
	redisDo(t, other.URL(), "SADD", "bad", "bad.example")
	way.Stall()
	t.Cleanup(way.Resume)
	stops := start(t, hangs)
	stops.worksOn(t, "list hangs")
	await(t, "it asks the server", func() bool { return way.Connections() > 0 })
	if err := stops.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if log := stops.log.String(); strings.Contains(log, "not finished in time") {
		t.Errorf("the stop has waited in vain:\n%s", log)
	}
	s := start(t, hangs)
	s.worksOn(t, "list hangs")
	way.Resume()
	await(t, "the list and the set are taken in", func() bool { return countedByName(t, s.Engine)["hangs"] == 3 && s.Stats().Suppressed == 1 })
	s.whole(t)
}

// TestAStopWithoutTheServer: the program stops while a server is still away, and the next
// one takes what it has.
func TestAStopWithoutTheServer(t *testing.T) {
	other := beside(t, "")
	pushEvents(t, other.URL(), "away", "away", 4)
	stopServer(t, other)
	s := start(t, func(c *config.Config) {
		c.Lists = append(c.Lists, config.List{Name: "away", Take: config.TakeLeft, Redis: config.URL(other.URL())})
	})
	s.worksOn(t, "list away")
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := s.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("the stop says %v, its time: %v", err, ctx.Err())
	}
	restartServer(t, other)
	next := open(t, s.main, string(s.config.Database), 2, func(c *config.Config) { c.Lists = s.config.Lists })
	await(t, "the next one stores it", func() bool { return countedByName(t, next)["away"] == 4 })
}

// TestTwoProcessesOfWhichOneReachesTheServer: the one that reaches it drains its list, also
// while the other has been there for longer; when both do, they share.
func TestTwoProcessesOfWhichOneReachesTheServer(t *testing.T) {
	redis, database := sharedServers(t)
	other := beside(t, "")
	way, err := proxy.New(other.Network(), other.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	way.Refuse(true)
	lists := func(url string) func(*config.Config) {
		return func(c *config.Config) {
			c.Lists = []config.List{{Name: "here", Take: config.TakeLeft}, {Name: "there", Take: config.TakeLeft, Redis: config.URL(url)}}
		}
	}
	cut := open(t, redis, database, 2, lists("redis://"+way.Addr()))
	await(t, "the first drains what it reaches", func() bool { return cut.Stats().Leases["intake"] == 1 })
	whole := open(t, redis, database, 2, lists(other.URL()))
	pushEvents(t, other.URL(), "there", "there", 5)
	await(t, "the second drains the rest", func() bool { return countedByName(t, whole)["there"] == 5 })
	pushEvents(t, redis, "here", "here", 5)
	await(t, "the first goes on", func() bool { return countedByName(t, whole)["here"] == 5 })
	if err := cut.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the second drains both", func() bool { return whole.Stats().Leases["intake"] == 2 })
	again := open(t, redis, database, 2, lists("redis://"+way.Addr()))
	await(t, "each knows the other", func() bool { return again.Stats().Processes == 2 && whole.Stats().Processes == 2 })
	pushEvents(t, other.URL(), "there", "there", 5)
	await(t, "nothing is given to a process that does not reach it", func() bool { return countedByName(t, whole)["there"] == 10 })
	if held := again.Stats().Leases["intake"]; held != 0 {
		t.Errorf("it was given %d lists by one that reaches all", held)
	}
	way.Refuse(false)
	await(t, "they share", func() bool { return again.Stats().Leases["intake"] == 1 && whole.Stats().Leases["intake"] == 1 })
	pushEvents(t, other.URL(), "there", "there", 5)
	await(t, "all is stored", func() bool { return countedByName(t, whole)["there"] == 15 && again.Ready() == nil })
}
