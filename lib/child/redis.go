package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	redisRemedy = "run `make deps` (Debian and Ubuntu: package redis-server), or install Redis 7.0 or newer, or Valkey, with your system's packages"

	// redisAnswerWithin bounds the time to Redis's first answer of any kind.
	redisAnswerWithin = 20 * time.Second

	// redisLoadStall bounds how long loading the log may go without progress;
	// how long it takes altogether is only bounded by the caller's context.
	redisLoadStall = 60 * time.Second

	// redisStopPatience is how long Redis may take to end after SIGTERM.
	redisStopPatience = 20 * time.Second

	// redisDialWithin bounds one look at the server.
	redisDialWithin = 2 * time.Second
)

// RedisOptions are what a private Redis is started with.
type RedisOptions struct {
	// Dir holds the append-only file, the log redis.log and, if its path is
	// short enough, the socket. It is made if it does not exist. Required.
	Dir string

	// AppendFsync is "always" (the default: what was answered is on disk),
	// "everysec" or "no".
	AppendFsync string

	// MaxMemory is Redis's limit with its unit, such as "64mb"; empty: none.
	// At the limit Redis refuses writes, it never evicts.
	MaxMemory string

	// Extra are further arguments, such as "--maxclients", "100". They come last, and
	// so win.
	Extra []string
}

// Redis is a private Redis server. Its methods may be called from several
// goroutines, but Stop and Restart not at the same time.
type Redis struct {
	Server
	opt     RedisOptions
	program string
	socket  string
}

// StartRedis starts a Redis and returns when it answers PING, which on an old
// directory is when it has read its append-only file. ctx bounds the start,
// not the server's life: that ends with Stop, with Kill or with this program.
func StartRedis(ctx context.Context, opt RedisOptions) (*Redis, error) {
	r := new(Redis)
	if opt.AppendFsync == "" {
		opt.AppendFsync = "always"
	}
	r.opt = opt
	err := r.Settle("redis", "RedisOptions.Dir", opt.Dir, redisStopPatience)
	if err != nil {
		return nil, err
	}
	if r.program, err = Find(redisRemedy, "redis-server", "valkey-server"); err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	if r.socket, r.SocketHome, err = SocketPath(r.dir, "redis.sock"); err != nil {
		return nil, fmt.Errorf("start redis in %s: %w", r.dir, err)
	}
	if err := r.Begin(ctx); err != nil {
		r.removeSocketHome()
		return nil, err
	}
	return r, nil
}

// Begin runs the server with the directory and socket that r has.
func (r *Redis) Begin(ctx context.Context) error {
	return r.Run(ctx, Spec{Program: r.program, Args: r.arguments(), private: true}, func(*os.File) error { return nil }, func(p *Process) error { return r.awaitReady(ctx, p) })
}

// arguments are the whole configuration: Redis reads no file. Protected mode
// and the bind address keep it on this machine. There are no RDB snapshots,
// since the append-only file alone is the truth. It is noeviction, since every
// key is part of the truth. A rewrite of that file compresses nothing: under load it
// computes 3 to 4 % of all there is, for a file that is as large as what is appended.
func (r *Redis) arguments() []string {
	args := []string{
		"--daemonize", "no",
		"--dir", r.dir,
		"--bind", "127.0.0.1",
		"--port", "0",
		"--protected-mode", "yes",
		"--unixsocket", r.socket,
		"--unixsocketperm", "700",
		"--save", "",
		"--appendonly", "yes",
		"--appendfsync", r.opt.AppendFsync,
		"--rdbcompression", "no",
		"--maxmemory-policy", "noeviction",
	}
	if r.opt.MaxMemory != "" {
		args = append(args, "--maxmemory", r.opt.MaxMemory)
	}
	return append(args, r.opt.Extra...)
}

// awaitReady waits for PONG. It asks through the socket: only our server can be
// behind it. While Redis loads, the limit is renewed by every bit of progress.
func (r *Redis) awaitReady(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(redisAnswerWithin, func() {
		cancel(fmt.Errorf("no answer within %s", redisAnswerWithin))
	})
	stall := time.AfterFunc(redisLoadStall, func() {
		cancel(fmt.Errorf("no progress in loading its append-only file for %s", redisLoadStall))
	})
	defer limit.Stop()
	defer stall.Stop()
	loadedBefore := int64(-1)
	return p.Await(ctx, r.LogPath(), func() (bool, error) {
		s, err := look(r.socket)
		if err != nil || !s.loading {
			return err == nil, err
		}
		limit.Stop()
		if s.loadedBytes > loadedBefore {
			loadedBefore = s.loadedBytes
			stall.Reset(redisLoadStall)
		}
		return false, nil
	})
}

// state is what one look at a starting Redis shows.
type state struct {
	loading     bool
	loadedBytes int64
}

// look asks Redis whether it is ready.
func look(socket string) (state, error) {
	conn, err := DialSocket(socket, redisDialWithin)
	if err != nil {
		return state{}, err
	}
	defer conn.Close()
	in := bufio.NewReader(io.LimitReader(conn, 64<<10))
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return state{}, err
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return state{}, fmt.Errorf("read the answer to PING: %w", err)
	}
	if !strings.HasPrefix(line, "-LOADING") {
		return state{}, nil // PONG, or an error such as NOAUTH: it serves
	}
	s := state{loading: true}
	if _, err := io.WriteString(conn, "INFO persistence\r\n"); err != nil {
		return s, nil
	}
	if _, err := in.ReadString('\n'); err != nil { // the length; an empty line ends it
		return s, nil
	}
	for {
		line, err := in.ReadString('\n')
		name, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if err != nil || name == "" {
			return s, nil
		}
		if n, err := strconv.ParseInt(value, 10, 64); found && err == nil && name == "loading_loaded_bytes" {
			s.loadedBytes = n
		}
	}
}

// URL returns where Redis listens, "unix:///dir/redis.sock", as rueidis.ParseURL reads
// it.
func (r *Redis) URL() string { return "unix://" + (&url.URL{Path: r.socket}).EscapedPath() }

// Socket returns the path of the unix socket.
func (r *Redis) Socket() string { return r.socket }
