package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/lib/child"
)

const (
	// SentinelSet is the name of the master that the sentinels watch.
	SentinelSet = "mymaster"

	// sentinelDown is after how long a silent master is taken for failed. On a busy machine
	// one that lives may be silent for a second.
	sentinelDown = 3 * time.Second

	sentinelReadyWithin = busyWithin
	sentinelPatience    = 5 * time.Second
)

// SentinelOptions are what a master with replicas and sentinels is started with.
type SentinelOptions struct {
	Dir       string // holds a directory for each server; required
	Replicas  int
	Sentinels int
	Extra     []string // further arguments of the servers with data
}

// Sentinels is a private Redis with replicas, and the sentinels that promote one.
type Sentinels struct {
	Servers   []*Redis // the first was the master when it was started
	Sentinels []*Sentinel
}

// Sentinel is one sentinel.
type Sentinel struct {
	base
	program string
	master  int // its port, when the sentinel is started for the first time
	quorum  int
}

// StartSentinels starts all of it, and returns when every sentinel knows of the
// replicas and of the other sentinels. Close kills all.
func StartSentinels(ctx context.Context, opt SentinelOptions) (*Sentinels, error) {
	s := &Sentinels{}
	if err := s.start(ctx, opt); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis with sentinels in %s: %w", opt.Dir, err), s.Close())
	}
	return s, nil
}

func (s *Sentinels) start(ctx context.Context, opt SentinelOptions) error {
	for i := range 1 + opt.Replicas {
		extra := append([]string{"--repl-diskless-sync-delay", "0"}, opt.Extra...)
		if i > 0 {
			extra = append(extra, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Servers[0].port))
		}
		r, err := StartRedis(ctx, RedisOptions{Dir: filepath.Join(opt.Dir, "server"+strconv.Itoa(i)), Listen: "tcp", Extra: extra})
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, r)
	}
	for i := range opt.Sentinels {
		one := &Sentinel{master: s.Servers[0].port, quorum: opt.Sentinels/2 + 1}
		if err := one.startIn(ctx, filepath.Join(opt.Dir, "sentinel"+strconv.Itoa(i))); err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, one)
	}
	return s.await(ctx, opt)
}

func (s *Sentinel) startIn(ctx context.Context, dir string) (err error) {
	if err := s.settle("sentinel", "SentinelOptions.Dir", dir, 0, sentinelPatience, s.run); err != nil {
		return err
	}
	if s.program, err = child.Find("run `make deps`", "redis-server", "valkey-server"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.first(ctx, "sentinel", true)
}

// run starts the process. Its file is its memory: it is written once, and then by
// the sentinel.
func (s *Sentinel) run(ctx context.Context) error {
	file := filepath.Join(s.Dir(), "sentinel.conf")
	prepare := func(*os.File) error {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		return os.WriteFile(file, fmt.Appendf(nil, "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %d %d\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 5000\n",
			s.port, s.Dir(), SentinelSet, s.master, s.quorum, SentinelSet, sentinelDown.Milliseconds(), SentinelSet), 0o600)
	}
	return s.Run(ctx, child.Spec{Program: s.program, Args: []string{file, "--sentinel"}}, prepare, func(p *child.Process) error {
		return s.awaitWithin(ctx, p, "answer", sentinelReadyWithin, func() (bool, error) {
			_, err := inquire("tcp", s.Addr(), "PING")
			return err == nil, nil
		})
	})
}

// await returns when the sentinels know all that there is.
func (s *Sentinels) await(ctx context.Context, opt SentinelOptions) error {
	ctx, cancel := context.WithTimeout(ctx, clusterReadyWithin)
	defer cancel()
	want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", s.Servers[0].Addr(), opt.Replicas, opt.Sentinels)
	for _, one := range s.Sentinels {
		for {
			lines, err := inquire("tcp", one.Addr(), "INFO sentinel")
			if err == nil && strings.Contains(strings.Join(lines, "\n"), want) {
				break
			}
			select {
			case <-time.After(clusterLook):
			case <-ctx.Done():
				return fmt.Errorf("wait for sentinel %s: %w; it says %q (%v)", one.Addr(), ctx.Err(), lines, err)
			}
		}
	}
	return nil
}

// URL names all sentinels and the master set.
func (s *Sentinels) URL() string {
	var all []string
	for _, one := range s.Sentinels {
		all = append(all, one.Addr())
	}
	return "redis-sentinel://" + strings.Join(all, ",") + "/" + SentinelSet
}

// Master returns the living server that is the master, by what most sentinels say;
// nil: they name none that lives.
func (s *Sentinels) Master() *Redis {
	for _, one := range s.Sentinels {
		lines, err := inquire("tcp", one.Addr(), "SENTINEL GET-MASTER-ADDR-BY-NAME "+SentinelSet)
		if err != nil || len(lines) != 2 {
			continue
		}
		for _, r := range s.Servers {
			info, err := say(r, "INFO replication")
			if r.Addr() == net.JoinHostPort(lines[0], lines[1]) && err == nil && strings.Contains(strings.Join(info, "\n"), "role:master") {
				return r
			}
		}
	}
	return nil
}

// Failover has the sentinels promote a replica now, though the master lives. What the
// master takes until all clients know of it is lost.
func (s *Sentinels) Failover() error {
	_, err := inquire("tcp", s.Sentinels[0].Addr(), "SENTINEL FAILOVER "+SentinelSet)
	return err
}

// Promotions returns how often the sentinels have promoted a replica, by their logs.
func (s *Sentinels) Promotions() (n int, err error) {
	for _, one := range s.Sentinels {
		text, err := os.ReadFile(one.LogPath())
		if err != nil {
			return 0, err
		}
		n += bytes.Count(text, []byte(" +promoted-slave "))
	}
	return n, nil
}

// Agree reports whether every sentinel names the same living master, which it returns.
func (s *Sentinels) Agree() (master *Redis, agree bool) {
	address := ""
	for _, one := range s.Sentinels {
		lines, err := inquire("tcp", one.Addr(), "SENTINEL GET-MASTER-ADDR-BY-NAME "+SentinelSet)
		if err != nil || len(lines) != 2 || address != "" && address != net.JoinHostPort(lines[0], lines[1]) {
			return nil, false
		}
		address = net.JoinHostPort(lines[0], lines[1])
	}
	master = s.Master()
	return master, master != nil && master.Addr() == address
}

// AwaitReplicas returns when all sentinels agree on a master, and every other server
// follows it.
func (s *Sentinels) AwaitReplicas(ctx context.Context) error {
	return awaitEach(ctx, s.Servers, func(r *Redis) bool {
		master, agree := s.Agree()
		info, err := say(r, "INFO replication")
		text := strings.Join(info, "\n")
		return agree && err == nil && (r == master ||
			strings.Contains(text, "master_link_status:up") && strings.Contains(text, "master_port:"+strconv.Itoa(master.port)+"\n"))
	})
}

// Close kills all of it.
func (s *Sentinels) Close() error {
	var errs []error
	for _, one := range s.Sentinels {
		errs = append(errs, one.Kill())
	}
	for _, r := range s.Servers {
		errs = append(errs, r.Kill())
	}
	return errors.Join(errs...)
}
