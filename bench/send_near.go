package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/mail"
	"sluice/mail/dkim"
	"sluice/mail/smtpd"
	"sluice/mail/spool"
	"sluice/mail/via/smtp"
	"sluice/test/dkimtest"
	"sluice/test/servers"
)

// What a mail costs without a distance: taken in by SMTP, kept durably, sent on
// by SMTP, and no more than that. smtp-source hands them in, smtp-sink takes
// them, of Sluice as of Postfix; both are Postfix's own.
const (
	nearMails      = 20_000
	nearMailsQuick = 2_000
	nearSessions   = 10
	nearBytes      = 10 << 10
	nearRuns       = 3
	nearWithin     = 3 * time.Minute

	wantUnsigned = 1500 // mails a CPU-second
	wantSigned   = 550
	wantPostfix  = 1
)

// sendNear measures CPU.
func sendNear(ctx context.Context, e *env) (err error) {
	r := e.run
	mails := pick(r, nearMails, nearMailsQuick)
	r.report.Settings["cpu"] = fmt.Sprintf("smtp-source -d, %d sessions, %d mails of %d bytes, to smtp-sink; CPU of all processes of the measured program, Redis and the database not among them", nearSessions, mails, nearBytes)
	sinkAddress, stopSink, err := startSMTPSink(ctx)
	if err != nil {
		return err
	}
	defer stopSink()
	for n := range pick(r, nearRuns, 1) {
		for _, signed := range []bool{false, true} {
			id, label := "unsigned", "Sluice, unsigned"
			if signed {
				id, label = "signed", "Sluice, signed with RSA-2048"
			}
			r.say("%s, run %d", label, n+1)
			if err := nearSluice(ctx, e, id, label, sinkAddress, mails, signed); err != nil {
				return err
			}
		}
		r.say("Postfix, run %d", n+1)
		if err := nearPostfix(ctx, e, sinkAddress, mails, n); err != nil {
			return err
		}
	}
	r.report.judge(target{ratio: "unsigned_per_cpu_s", value: wantUnsigned}, r.report.value("unsigned_cpu"))
	r.report.judge(target{ratio: "signed_per_cpu_s", value: wantSigned}, r.report.value("signed_cpu"))
	r.report.divide("vs_postfix", "unsigned_cpu", "postfix_cpu", wantPostfix)
	return nil
}

// startSMTPSink starts smtp-sink on a free port.
func startSMTPSink(ctx context.Context) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("find a port for smtp-sink: %w", err)
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	child := exec.CommandContext(ctx, "smtp-sink", "-u", "nobody", address, "1000")
	if err := child.Start(); err != nil {
		return "", nil, fmt.Errorf("start smtp-sink: %w; run `make deps-test` (Debian and Ubuntu: package postfix)", err)
	}
	stop = func() {
		_ = child.Process.Kill()
		_ = child.Wait() // killed
	}
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return address, stop, c.Close()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			break
		}
	}
	stop()
	return "", nil, fmt.Errorf("smtp-sink does not listen at %s", address)
}

// source hands in mails, each to an address of its own.
func source(ctx context.Context, address string, mails int) error {
	ctx, cancel := context.WithTimeout(ctx, nearWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "smtp-source", "-d", "-N", "-m", strconv.Itoa(mails), "-s", strconv.Itoa(nearSessions), "-l", strconv.Itoa(nearBytes),
		"-f", "shop@example.com", "-t", "user@example.net", address).CombinedOutput()
	if err != nil {
		return fmt.Errorf("smtp-source: %w: %.300s", err, out)
	}
	return nil
}

// nearSluice measures this process, which is all of Sluice that is needed.
func nearSluice(ctx context.Context, e *env, id, label, sinkAddress string, mails int, signed bool) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	relay, err := smtp.New(smtp.Options{Name: "sink", Address: sinkAddress, TLS: smtp.TLSNone, Idle: time.Minute})
	if err != nil {
		return err
	}
	clock := sluice.SystemClock{}
	mailer := &spool.Mailer{Clock: clock}
	if signed {
		k, err := dkim.ParseKey("example.com", "bench", dkimtest.Key(dkimtest.RSA))
		if err != nil {
			return err
		}
		signer, err := dkim.NewSigner(k)
		if err != nil {
			return err
		}
		mailer.Signers = &dkim.Ring{}
		if err := mailer.Signers.Add(signer); err != nil {
			return err
		}
	}
	s, err := openSpool(ctx, e, e.maria, relay, mailer, spoolMargin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx), relay.Close()) }()
	certificates, err := smtpd.SelfSigned("localhost", clock)
	if err != nil {
		return err
	}
	server := smtpd.New(smtpd.Options{
		Hostname: "localhost", MaxMessageBytes: 1 << 20, OpenLoopback: true, Certificates: certificates, Authority: nobodyKnown{},
		Submitter: func() mail.Submitter { return s.intake }, Clock: clock, Log: slog.New(slog.DiscardHandler),
	})
	if err := server.Start(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	stop := s.send(ctx)
	defer stop()
	before, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return err
	}
	started := time.Now()
	if err := source(ctx, server.Address(), mails); err != nil {
		return err
	}
	for sent := int64(0); sent < int64(mails); {
		if time.Since(started) > nearWithin {
			return fmt.Errorf("%s: %d of %d mails were sent within %s", label, sent, mails, nearWithin)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		sent = s.stats.Results("sink")[mail.ResultSent]
	}
	took := time.Since(started)
	after, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return err
	}
	e.run.report.add(id, label, "mails/s", float64(mails)/took.Seconds())
	e.run.report.add(id+"_cpu", label, "mails/CPU-s", float64(mails)/(after-before).Seconds())
	return nil
}

// nobodyKnown knows no keys: the generator sends without one.
type nobodyKnown struct{}

func (nobodyKnown) Identify(context.Context, string) (key.Identity, error) {
	return key.Identity{}, &sluice.Error{Code: sluice.CodeUnauthorized, Index: -1, Message: "no keys here"}
}
func (nobodyKnown) Admit(key.Identity) error { return nil }
func (nobodyKnown) Spend(key.Identity, int)  {}

// nearPostfix measures a private Postfix, its defaults but for where it sends.
func nearPostfix(ctx context.Context, e *env, sinkAddress string, mails, n int) (err error) {
	dir := filepath.Join(e.dir, fmt.Sprint("postfix", n))
	p, err := servers.StartPostfix(ctx, servers.PostfixOptions{Dir: dir, Next: sinkAddress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(ctx)) }()
	before, err := cpuTimeOfTree(p.Pid())
	if err != nil {
		return err
	}
	started := time.Now()
	if err := source(ctx, p.Addr(), mails); err != nil {
		return err
	}
	for left := mails; left > 0; {
		if time.Since(started) > nearWithin {
			return fmt.Errorf("postfix still has %d mails after %s", left, nearWithin)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if left, err = queued(filepath.Join(dir, "queue")); err != nil {
			return err
		}
	}
	took := time.Since(started)
	after, err := cpuTimeOfTree(p.Pid())
	if err != nil {
		return err
	}
	e.run.report.add("postfix", "Postfix", "mails/s", float64(mails)/took.Seconds())
	e.run.report.add("postfix_cpu", "Postfix, all its processes", "mails/CPU-s", float64(mails)/(after-before).Seconds())
	return nil
}

// queued is how many mails are in a queue directory of Postfix.
func queued(dir string) (mails int, err error) {
	for _, queue := range []string{"maildrop", "incoming", "active", "deferred"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(dir, queue), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				mails++
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was moved on
			}
			return err
		}))
	}
	return mails, err
}

// cpuTimeOfTree is the CPU time of a process, of those that it started, and of
// those of them that have ended.
func cpuTimeOfTree(root int) (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of processes: %w; it takes Linux", err)
	}
	type process struct {
		parent int
		ticks  int64
	}
	all := make(map[int]process)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// proc(5): behind the name in parentheses, ppid is the 4th field, utime,
		// stime and those of ended children the 14th to 17th.
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		p := process{}
		p.parent, _ = strconv.Atoi(fields[1]) // the kernel wrote a number
		for _, f := range fields[11:15] {
			n, _ := strconv.ParseInt(f, 10, 64)
			p.ticks += n
		}
		all[pid] = p
	}
	var ticks int64
	for pid, p := range all {
		for at := pid; at > 1; at = all[at].parent {
			if at == root {
				ticks += p.ticks
				break
			}
		}
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}
