package servers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"sluice/lib/child"
)

// RedisOptions are what a private Redis is started with.
type RedisOptions struct {
	// Dir holds the append-only file, the log redis.log and, if its path is short
	// enough, the socket. It is made if it does not exist. Required.
	Dir string

	// AppendFsync is "always" (the default: what was answered is on disk),
	// "everysec" or "no".
	AppendFsync string

	// Listen is "unix" (the default) or "tcp" for a free port of 127.0.0.1. The
	// socket is there in both cases; Listen chooses what URL and Addr return.
	Listen string

	// Extra are further arguments, such as "--maxclients", "100". They come last,
	// and so win.
	Extra []string
}

// Redis is the embedded Redis of the program, and what only tests do with it. Its
// methods may be called from several goroutines, but Stop and Restart not at the same
// time.
type Redis struct {
	*child.Redis
	port int // 0: it listens on its socket only
}

// StartRedis starts a Redis and returns when it answers. ctx bounds the start, not
// its life: that ends with Stop, with Kill or with this program.
func StartRedis(ctx context.Context, opt RedisOptions) (*Redis, error) {
	if opt.Listen != "" && opt.Listen != "unix" && opt.Listen != "tcp" {
		return nil, fmt.Errorf("start redis: RedisOptions.Listen is %q: want \"unix\" or \"tcp\"", opt.Listen)
	}
	r := &Redis{}
	start := func() (err error) {
		r.Redis, err = child.StartRedis(ctx, child.RedisOptions{Dir: opt.Dir, AppendFsync: opt.AppendFsync,
			Extra: append([]string{"--port", strconv.Itoa(r.port)}, opt.Extra...)})
		return err
	}
	var err error
	if opt.Listen == "tcp" {
		err = onFreePort("redis", &r.port, start)
	} else {
		err = start()
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// URL returns where Redis listens, "unix:///dir/redis.sock" or
// "redis://127.0.0.1:6379", as rueidis.ParseURL reads it.
func (r *Redis) URL() string {
	if r.port != 0 {
		return "redis://" + r.Addr()
	}
	return r.Redis.URL()
}

// Addr returns the path of the socket, or host:port.
func (r *Redis) Addr() string {
	if r.port != 0 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port))
	}
	return r.Socket()
}

// Network returns "unix" or "tcp": what net.Dial wants beside Addr.
func (r *Redis) Network() string {
	if r.port != 0 {
		return "tcp"
	}
	return "unix"
}

// Restart starts a stopped or killed server again, with the same directory, socket
// and port. One that still runs is stopped first.
func (r *Redis) Restart(ctx context.Context) error { return restart(ctx, &r.Server, r.Begin) }

// Pause stops the server with SIGSTOP: connections stay open, nothing is answered. It
// returns when every thread has stopped.
func (r *Redis) Pause() error { return pause(r.Current()) }

// Continue lets a paused server go on.
func (r *Redis) Continue() error { return r.Current().Signal(syscall.SIGCONT) }
