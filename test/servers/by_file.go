package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/lib/child"
)

// byFilePatience is how long a server may take to end after SIGTERM.
const byFilePatience = 10 * time.Second

// RedisFileOptions are what a Redis of an operator's file is started with.
type RedisFileOptions struct {
	// Dir is what the file calls dir. The file and the log go there as well. Required.
	Dir string

	// Text makes the file for a free port of 127.0.0.1. It is called again if another
	// process takes the port before the server does. Required.
	Text func(port int) string

	// Sentinel has it run as a sentinel, which writes to its file.
	Sentinel bool
}

// RedisByFile is a Redis, or a sentinel, that has its whole configuration from a file, as
// on the machine of an operator. Redis and Sentinels bring settings of their own: that a
// file lacks one of them would not show.
type RedisByFile struct {
	base
	opt     RedisFileOptions
	program string
	written int // the port that the file was written for; 0: it is not
}

// StartRedisByFile starts a server, and returns when it answers, if only to ask for the
// password. ctx bounds the start, not its life.
func StartRedisByFile(ctx context.Context, opt RedisFileOptions) (*RedisByFile, error) {
	r := &RedisByFile{opt: opt}
	err := r.settle("redis", "RedisFileOptions.Dir", opt.Dir, 0, byFilePatience, r.run)
	if err != nil {
		return nil, err
	}
	if r.program, err = child.Find("run `make deps`", "redis-server", "valkey-server"); err != nil {
		return nil, err
	}
	if err := r.first(ctx, "redis", true); err != nil {
		return nil, err
	}
	return r, nil
}

// run starts the process. The file is written once for each port: a server that is
// started again finds what it has written there itself.
func (r *RedisByFile) run(ctx context.Context) error {
	args := []string{filepath.Join(r.Dir(), "server.conf")}
	if r.opt.Sentinel {
		args = append(args, "--sentinel")
	}
	prepare := func(*os.File) error {
		if r.written == r.port {
			return nil
		}
		r.written = r.port
		return os.WriteFile(args[0], []byte(r.opt.Text(r.port)), 0o600)
	}
	return r.Run(ctx, child.Spec{Program: r.program, Args: args}, prepare, func(p *child.Process) error {
		return r.awaitWithin(ctx, p, "answer", sentinelReadyWithin, func() (bool, error) {
			_, err := inquire("tcp", r.Addr(), "PING")
			if err != nil && strings.Contains(err.Error(), "NOAUTH") {
				err = nil
			}
			return err == nil, err
		})
	})
}
