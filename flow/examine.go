package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/lib/doctor"
)

// Examiner looks at a Redis server for `sluice doctor`.
type Examiner struct {
	URL   string
	Main  bool // it holds the logs; else only lists or hashes that are drained
	Clock sluice.Clock
}

var _ doctor.Examiner = (*Examiner)(nil)

// How full a Redis may be, in percent.
const (
	memoryWarnPercent  = 80
	memoryErrorPercent = 95
)

// redisChecks are what is unknown of a server that does not answer.
var redisChecks = []doctor.Check{
	doctor.CheckRedisVersion, doctor.CheckRedisCluster, doctor.CheckRedisReplica, doctor.CheckRedisPersistence, doctor.CheckRedisDisk,
	doctor.CheckRedisEviction, doctor.CheckRedisMemory, doctor.CheckRedisClock, doctor.CheckRedisFailover,
}

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) doctor.Examination {
	e := doctor.Examination{Where: redactURL(x.URL)}
	option, err := clientOption(x.URL)
	var r *Redis
	var info map[string]string
	if err == nil {
		r, info, err = x.connect(ctx, option)
	}
	if err != nil {
		e.Fail(doctor.CheckRedisReachable, remedyOf(err), "%s", doctor.OneLine(err))
		e.Unknown(errors.New("the server could not be asked"), redisChecks...)
		return e
	}
	defer r.Close()
	e.Fine(doctor.CheckRedisReachable, "it answers")
	if info["cluster_enabled"] == "1" {
		x.cluster(ctx, &e, option, masterInfo{e.Where, r.client, info, nil})
		return e
	}
	e.Fine(doctor.CheckRedisCluster, "it is no cluster node")
	x.server(ctx, &e, r, info)
	x.failover(ctx, &e, option, r, info)
	if local(x.URL) {
		e.Directory, _ = r.configured(ctx, "dir") // a server that does not tell is no finding
	}
	return e
}

// server looks at one server that holds data.
func (x *Examiner) server(ctx context.Context, e *doctor.Examination, r *Redis, info map[string]string) {
	x.version(e, info)
	if info["role"] == "slave" {
		e.Fail(doctor.CheckRedisReplica, "name the primary (or make this one: REPLICAOF NO ONE)", "it is a replica of %s:%s and takes no writes", info["master_host"], info["master_port"])
	} else {
		e.Fine(doctor.CheckRedisReplica, "it is a primary; replicas: %s", info["connected_slaves"])
	}
	x.persistence(ctx, e, r, info)
	x.memory(e, info)
	e.CompareClocks(doctor.CheckRedisClock, x.Clock, func() (int64, error) { return r.TimeMillis(ctx) })
}

// connect connects to the first server of the URL that answers, or to the master that its
// sentinels name, whatever its version. The client gives up by itself after its dialler's
// timeout, the greeting included.
func (x *Examiner) connect(ctx context.Context, option rueidis.ClientOption) (*Redis, map[string]string, error) {
	name := redactURL(x.URL)
	all := option.InitAddress
	option.ForceSingleClient = option.Sentinel.MasterSet == ""
	first := option
	var err error
	if len(all) > 1 { // the library would wait for each that has vanished
		var where string
		if _, where, err = probe(ctx, option); err == nil {
			first.InitAddress = append([]string{where}, slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == where })...)
		}
	}
	var client rueidis.Client
	if err == nil {
		if first.ForceSingleClient {
			first.InitAddress = first.InitAddress[:1]
		}
		client, err = rueidis.NewClient(first)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to redis %s: %w", name, whyNot(ctx, option, err))
	}
	r := &Redis{client: client, name: name}
	info, err := r.Info(ctx, "default")
	if err == nil && option.Sentinel.MasterSet == "" {
		err = judgeServer(option, strings.Join(all, ","), info)
	}
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, info, nil
}

// remedyOf says what may be done about a server that cannot be asked.
func remedyOf(err error) string {
	if wrong, ok := errors.AsType[*wrongServer](err); ok {
		return wrong.remedy
	}
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"):
			return "put the user and password into the URL: redis://USER:PASSWORD@HOST:PORT"
		case strings.HasPrefix(text, "NOPERM"):
			return "allow the user all commands on Sluice's keys and its lists, and INFO: ACL SETUSER"
		case strings.HasPrefix(text, "LOADING"):
			return "wait: it reads its files"
		case strings.Contains(text, "SELECT is not allowed in cluster mode"):
			return "a cluster has database 0 alone: take the other out of the URL"
		}
		return "it runs, and refuses that: see its configuration and its log"
	}
	return "start it, and see that the URL, the port and the firewall are right"
}

func (x *Examiner) version(e *doctor.Examination, info map[string]string) {
	version := info["redis_version"]
	name := "Redis " + version
	if valkey := info["valkey_version"]; valkey != "" {
		name = "Valkey " + valkey
	}
	if !newEnough(version) {
		e.Fail(doctor.CheckRedisVersion, "install Redis 7.0 or newer, or Valkey", "it is %s, at least 7.0 is needed", name)
		return
	}
	e.Fine(doctor.CheckRedisVersion, "it is %s", name)
}

// persistence looks at what a kill or a power cut would leave.
func (x *Examiner) persistence(ctx context.Context, e *doctor.Examination, r *Redis, info map[string]string) {
	fsync, err := r.configured(ctx, "appendfsync")
	const always = "CONFIG SET appendfsync always, and the same in redis.conf: requests are written in groups, so it costs a batch and not a request"
	switch {
	case info["aof_enabled"] == "0":
		remedy := "CONFIG SET appendonly yes; CONFIG SET appendfsync always; and the same in redis.conf"
		text := "appendonly is no: what is in it is lost when it ends, or what came since its last snapshot"
		if x.Main {
			e.Fail(doctor.CheckRedisPersistence, remedy, "%s", text)
		} else {
			e.Warn(doctor.CheckRedisPersistence, remedy, "%s, elements that Sluice has taken and not stored among it", text)
		}
	case err != nil:
		e.Unknown(fmt.Errorf("appendonly is yes, but how often it syncs could not be asked: %w", err), doctor.CheckRedisPersistence)
	case fsync == "everysec":
		e.Warn(doctor.CheckRedisPersistence, always, "appendfsync is everysec: a power cut loses about a second of what was answered")
	case fsync == "no":
		e.Warn(doctor.CheckRedisPersistence, always, "appendfsync is no: a power cut loses what the system had not written, half a minute perhaps")
	default:
		e.Fine(doctor.CheckRedisPersistence, "appendonly is yes, appendfsync %s", fsync)
	}
	var failed []string
	for _, name := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if status := info[name]; status != "ok" && status != "" {
			failed = append(failed, name+" is "+status)
		}
	}
	if len(failed) > 0 {
		e.Fail(doctor.CheckRedisDisk, "look into its log: a full disk, a directory it may not write to, no memory to fork; it may refuse all writes until then",
			"its last write to disk failed: %s", strings.Join(failed, ", "))
		return
	}
	e.Fine(doctor.CheckRedisDisk, "its last writes to disk went well")
}

// memory looks at what happens when the server is full, and how near that is.
func (x *Examiner) memory(e *doctor.Examination, info map[string]string) {
	used, limit := number(info["used_memory"]), number(info["maxmemory"])
	const remedy = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"
	switch policy := info["maxmemory_policy"]; {
	case policy == "":
		e.Unknown(errors.New("INFO does not tell it"), doctor.CheckRedisEviction)
	case policy == "noeviction":
		e.Fine(doctor.CheckRedisEviction, "maxmemory-policy is noeviction")
	case limit == 0:
		e.Warn(doctor.CheckRedisEviction, remedy, "maxmemory-policy is %s: nothing is removed as long as maxmemory is 0, but would be with a limit", policy)
	default:
		e.Fail(doctor.CheckRedisEviction, remedy, "maxmemory-policy is %s: when it is full, Redis removes entries that are not stored yet", policy)
	}
	of := "its maxmemory"
	if limit == 0 {
		limit, of = number(info["total_system_memory"]), "its machine's memory (maxmemory is 0)"
	}
	if limit == 0 {
		e.Unknown(errors.New("INFO tells neither a limit nor the machine's memory"), doctor.CheckRedisMemory)
		return
	}
	percent := used * 100 / limit
	text := fmt.Sprintf("%d MiB, %d %% of %s, are in use", used>>20, percent, of)
	const more = "see what fills it (redis-cli --bigkeys, sluice doctor: lag); raise maxmemory, or give it a larger machine"
	switch {
	case percent >= memoryErrorPercent:
		e.Fail(doctor.CheckRedisMemory, more, "%s: when it is full nothing is taken in", text)
	case percent >= memoryWarnPercent:
		e.Warn(doctor.CheckRedisMemory, more, "%s", text)
	default:
		e.Fine(doctor.CheckRedisMemory, "%s", text)
	}
}

// TimeMillis returns the server's time, in milliseconds since 1970; of a cluster,
// that of the master with the beats, by which the processes go.
func (r *Redis) TimeMillis(ctx context.Context) (int64, error) { return r.timeAt(ctx, membersKey()) }

// timeAt is TimeMillis of the server that has a key.
func (r *Redis) timeAt(ctx context.Context, key string) (int64, error) {
	if !r.oneServer() {
		return r.callInt(ctx, "read the time", "info", []string{key}, []string{"time"})
	}
	answer, err := Ask(ctx, r, "read the time", r.B().Time().Build(), rueidis.RedisResult.AsStrSlice)
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("read the time: redis %s: the answer has %d parts", r, len(answer))
	}
	if err != nil {
		return 0, err
	}
	return number(answer[0])*1000 + number(answer[1])/1000, nil
}

// configured returns a value of the server's configuration.
func (r *Redis) configured(ctx context.Context, name string) (string, error) {
	verb := "read the setting " + name
	answer, err := Ask(ctx, r, verb, r.B().ConfigGet().Parameter(name).Build(), rueidis.RedisResult.AsStrMap)
	if err == nil && answer[name] == "" {
		err = fmt.Errorf("%s: redis %s: the server does not know it", verb, r)
	}
	return answer[name], err
}

// number reads a field of INFO, 0 if it is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
