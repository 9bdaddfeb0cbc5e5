package flow

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/lib/meter"
)

// callTimeout bounds every command that does not block on purpose.
const callTimeout = 10 * time.Second

// connBufferBytes is the read and write buffer of a connection: pages and
// batches are larger and go past it, so more would only cost memory.
const connBufferBytes = 64 << 10

// Redis is one Redis server or cluster. All its methods may be called from
// several goroutines at once; every write is done when they return nil.
type Redis struct {
	client rueidis.Client
	name   string // the URL without its password
	host   string // what of it a metric may show

	calls  meter.Seconds // scripts
	failed atomic.Int64  // commands and scripts

	floors floors
}

// Dial connects to the server, the cluster or the sentinels of a URL. It fails if
// none answers, or if Sluice cannot work there: a version before Redis 7.0, a
// sentinel without a master set, a cluster with slots that no server has. The error
// says what to do. It returns soon after ctx has ended.
func Dial(ctx context.Context, rawURL string) (*Redis, error) {
	option, err := clientOption(rawURL)
	if err != nil {
		return nil, err
	}
	name := redactURL(rawURL)
	client, err := newClient(ctx, option)
	if err != nil {
		return nil, fmt.Errorf("connect to redis %s: %w", name, whyNot(ctx, option, err))
	}
	r := &Redis{client: &patient{Client: client}, name: name, host: strings.Join(option.InitAddress, ",")}
	if err := r.check(ctx, option); err != nil {
		client.Close()
		return nil, fmt.Errorf("connect to redis %s: %w", name, err)
	}
	return r, nil
}

// String names the server, without password.
func (r *Redis) String() string { return r.name }

// Host names the server without user, password and database: HOST:PORT, or the
// path of a socket.
func (r *Redis) Host() string { return r.host }

// Calls returns how long the scripts of this process took, and how many
// commands failed. Most writes are scripts.
func (r *Redis) Calls() (took meter.Snapshot, failed int64) {
	return r.calls.Snapshot(), r.failed.Load()
}

// Close ends all connections.
func (r *Redis) Close() { r.client.Close() }

// oneServer reports whether all keys are on one server: it is no cluster.
func (r *Redis) oneServer() bool { return r.client.Mode() != rueidis.ClientModeCluster }

// together splits partitions into those whose keys one script may touch. On one
// server these are all. On a cluster each is alone, because its keys are in a
// slot of its own.
func (r *Redis) together(partitions int) [][]int {
	if r.oneServer() {
		all := make([]int, partitions)
		for p := range all {
			all[p] = p
		}
		return [][]int{all}
	}
	apart := make([][]int, partitions)
	for p := range apart {
		apart[p] = []int{p}
	}
	return apart
}

// Ping reports whether the server answers; of a cluster the masters of some keys,
// without keys that of the beats.
func (r *Redis) Ping(ctx context.Context, keys ...string) error {
	if r.oneServer() {
		return r.Do(ctx, "ping", r.B().Ping().Build())
	}
	if len(keys) == 0 {
		keys = []string{membersKey()}
	}
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = r.B().Exists().Key(key).Build()
	}
	return r.Do(ctx, "ping", commands...)
}

// PingLogs reports whether the servers answer that hold some logs and the beats.
func (r *Redis) PingLogs(ctx context.Context, logs []*Log) error {
	keys := []string{membersKey()}
	for _, l := range logs {
		keys = append(keys, l.partition.logKey())
	}
	return r.Ping(ctx, keys...)
}

// PingLists is PingLogs of those of some lists that are on this Redis.
func (r *Redis) PingLists(ctx context.Context, lists []*List) error {
	var keys []string
	for _, l := range lists {
		if l.redis == r {
			keys = append(keys, l.keys.list)
		}
	}
	return r.Ping(ctx, keys...)
}

// Info returns one section of INFO as its fields; of a cluster, that of any node.
func (r *Redis) Info(ctx context.Context, section string) (map[string]string, error) {
	text, err := Ask(ctx, r, "read INFO", r.B().Info().Section(section).Build(), rueidis.RedisResult.ToString)
	return fieldsOf(text), err
}

// infoAt is Info of the server that has a key.
func (r *Redis) infoAt(ctx context.Context, key, section string) (map[string]string, error) {
	if r.oneServer() {
		return r.Info(ctx, section)
	}
	text, err := run(ctx, r, "read INFO", "info", []string{key}, []string{section}, rueidis.RedisResult.ToString)
	return fieldsOf(text), err
}

// fieldsOf reads the answer to INFO, and to CLUSTER INFO.
func fieldsOf(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	return fields
}

// newEnough reports whether a version has what the scripts need.
func newEnough(version string) bool {
	var major int
	_, err := fmt.Sscanf(version, "%d.", &major)
	return err == nil && major >= 7
}

// Push appends elements to a list, as the producers of a foreign list do. It
// serves demos, benches and tests.
func (r *Redis) Push(ctx context.Context, list string, elements []string) error {
	if len(elements) == 0 {
		return nil
	}
	return r.Do(ctx, "push to list "+list, r.B().Rpush().Key(list).Element(elements...).Build())
}

// wrap says what was tried on which server, and gives the errors on which
// callers decide their own values.
func (r *Redis) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) { // a blocked read that ends with its follower is no failure
		r.failed.Add(1)
	}
	if reply, ok := rueidis.IsRedisErr(err); ok && reply != nil {
		text := reply.Error()
		switch {
		case strings.HasPrefix(text, "OOM"), strings.Contains(text, "used memory > 'maxmemory'"):
			return fmt.Errorf("%s: redis %s: %w: %s; it takes nothing in until it has been drained", verb, r.name, sluice.ErrFull, text)
		case strings.HasPrefix(text, "LEASE"):
			return fmt.Errorf("%s: redis %s: %w", verb, r.name, sluice.ErrLeaseLost)
		case strings.HasPrefix(text, "ELSEWHERE"), strings.HasPrefix(text, "BEHIND"):
			return fmt.Errorf("%s: redis %s: %w: it has gone back in time", verb, r.name, sluice.ErrConflict)
		}
	}
	return fmt.Errorf("%s: redis %s: %w", verb, r.name, err)
}

//go:embed lua/*.lua lua/part/*.lua
var luaFiles embed.FS

// scripts are all scripts by file name without ending. Each is sent whole only
// once. After a restart or SCRIPT FLUSH, EVALSHA is answered NOSCRIPT, and the
// script is then sent by EVAL, which loads it again.
var scripts = loadScripts()

func loadScripts() map[string]*rueidis.Lua {
	all := make(map[string]*rueidis.Lua)
	names, err := fs.Glob(luaFiles, "lua/*.lua")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		text, err := luaFiles.ReadFile(name)
		if err != nil {
			panic(err) // the file is part of the program
		}
		short, script := strings.TrimSuffix(path.Base(name), ".lua"), string(text)
		if writesEnds[short] {
			script = guarded(script)
		}
		all[short] = rueidis.NewLuaScript(script)
		if short == "append" {
			// Entries that are inside already must be able to move on when
			// Redis is full. New ones from outside must not come in (Script
			// flags, Redis 7.0).
			all["append-internal"] = rueidis.NewLuaScript("#!lua flags=allow-oom\n" + script)
		}
	}
	return all
}

// writesEnds are the scripts that write to the ends of logs, and replicated: Redis.writeEnd
// runs them.
var writesEnds = map[string]bool{"append": true, "append_each": true, "append_once": true, "again": true, "cancel": true, "commit": true, "record": true, "replicated": true}

// guarded returns a script that begins with guard.lua.
func guarded(script string) string {
	guard, err := luaFiles.ReadFile("lua/part/guard.lua")
	if err != nil {
		panic(err) // the file is part of the program
	}
	flags := ""
	if strings.HasPrefix(script, "#!") {
		flags, script, _ = strings.Cut(script, "\n")
		flags += "\n"
	}
	return flags + string(guard) + script
}

// call runs a script.
func (r *Redis) call(ctx context.Context, script string, keys, args []string) rueidis.RedisResult {
	started := time.Now()
	defer func() { r.calls.Observe(time.Since(started)) }()
	return scripts[script].Exec(ctx, r.client, keys, args)
}

// run runs a script and reads its answer.
func run[T any](ctx context.Context, r *Redis, verb, script string, keys, args []string, as func(rueidis.RedisResult) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := as(r.call(ctx, script, keys, args))
	return v, r.wrap(verb, err)
}

// Ask sends a command and reads its answer.
func Ask[T any](ctx context.Context, r *Redis, verb string, command rueidis.Completed, as func(rueidis.RedisResult) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := as(r.client.Do(ctx, command))
	return v, r.wrap(verb, err)
}

// Text reads a text; one that is not there is empty.
func Text(answer rueidis.RedisResult) (string, error) {
	text, err := answer.ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, err
}

// Do sends commands whose answers do not matter.
func (r *Redis) Do(ctx context.Context, verb string, commands ...rueidis.Completed) error {
	if len(commands) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if len(commands) == 1 { // one without a key goes to any node of a cluster
		return r.wrap(verb, r.client.Do(ctx, commands[0]).Error())
	}
	for _, answer := range r.client.DoMulti(ctx, commands...) {
		if err := answer.Error(); err != nil {
			return r.wrap(verb, err)
		}
	}
	return nil
}

// fields reads fields of a hash; one that is not there is empty.
func (r *Redis) fields(ctx context.Context, verb, key string, names ...string) ([]string, error) {
	values, err := Ask(ctx, r, verb, r.B().Hmget().Key(key).Field(names...).Build(), rueidis.RedisResult.AsStrSlice)
	if err == nil && len(values) != len(names) {
		err = fmt.Errorf("%s: redis %s: %d answers for %d fields", verb, r.name, len(values), len(names))
	}
	return values, err
}

// Put writes a field of a hash, in a full Redis as well: for what helps to drain it.
func (r *Redis) Put(ctx context.Context, verb, key, field, value string) error {
	_, err := r.callInt(ctx, verb, "put", []string{key}, []string{field, value})
	return err
}

// B begins a command.
func (r *Redis) B() rueidis.Builder { return r.client.B() }

// CallUnder runs a script that answers with one integer, under a lease: its key and
// token come before the others.
func (r *Redis) CallUnder(ctx context.Context, verb, script string, lease *Lease, keys, args []string) (int64, error) {
	return r.callInt(ctx, verb, script, append([]string{lease.key}, keys...), append([]string{lease.token}, args...))
}

// callTexts runs a script that answers with integers and texts mixed, and
// returns them all as texts.
func (r *Redis) callTexts(ctx context.Context, verb, script string, keys, args []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.readTexts(verb, r.call(ctx, script, keys, args))
}

func (r *Redis) readTexts(verb string, result rueidis.RedisResult) ([]string, error) {
	answer, err := result.ToArray()
	if err != nil {
		return nil, r.wrap(verb, err)
	}
	return texts(answer)
}

func texts(answer []rueidis.RedisMessage) ([]string, error) {
	out := make([]string, len(answer))
	for i := range answer {
		if n, err := answer[i].AsInt64(); err == nil && answer[i].IsInt64() {
			out[i] = fmt.Sprint(n)
			continue
		}
		s, err := answer[i].ToString()
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// callInt runs a script that answers with one integer.
func (r *Redis) callInt(ctx context.Context, verb, script string, keys, args []string) (int64, error) {
	return run(ctx, r, verb, script, keys, args, rueidis.RedisResult.AsInt64)
}
