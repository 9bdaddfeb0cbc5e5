package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/lib/child"
)

const (
	postfixRemedy = "run `make deps-test` (Debian and Ubuntu: package postfix)"

	postfixAnswerWithin  = busyWithin
	postfixDialWithin    = 2 * time.Second
	postfixStopPatience  = 10 * time.Second
	postfixDirectoryMode = 0o755
	postfixFileMode      = 0o644
)

// postfixServices is master.cf: what takes mail, sends it on and says so, and
// nothing that hands it to a user of this machine.
const postfixServices = `127.0.0.1:%d inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
`

// Postfix is a private Postfix, for tests and benches: a mail server written by
// others. Its master has to be root.
type Postfix struct {
	child.Runner
	dir  string
	port int
}

// PostfixOptions are what a private Postfix is started with.
type PostfixOptions struct {
	Dir      string   // made if it does not exist; holds configuration, queue and postfix.log
	Next     string   // host:port that all mail is sent on to; empty: it stays in the queue
	Settings []string // further lines of main.cf
}

// StartPostfix starts one and returns when it greets. ctx bounds the start, not
// its life.
func StartPostfix(ctx context.Context, opt PostfixOptions) (*Postfix, error) {
	dir, err := filepath.Abs(opt.Dir)
	if err != nil || opt.Dir == "" {
		return nil, errors.Join(errors.New("start postfix: name a directory for it"), err)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("start postfix: its master has to be root: run the test as root")
	}
	control, err := child.Find(postfixRemedy, "postfix")
	if err != nil {
		return nil, fmt.Errorf("start postfix: %w", err)
	}
	account, err := databaseAccount("postfix", postfixRemedy)
	if err != nil {
		return nil, fmt.Errorf("start postfix: %w", err)
	}
	p := &Postfix{dir: dir}
	if err := onFreePort("postfix", &p.port, func() error { return p.start(ctx, control, account, opt) }); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Postfix) start(ctx context.Context, control string, account *account, opt PostfixOptions) error {
	if err := p.prepare(account, opt); err != nil {
		return fmt.Errorf("start postfix: %w", err)
	}
	conf := filepath.Join(p.dir, "conf")
	if out, err := exec.CommandContext(ctx, control, "-c", conf, "check").CombinedOutput(); err != nil { // makes its directories
		return fmt.Errorf("start postfix: postfix check: %w: %s", err, out)
	}
	where, err := exec.CommandContext(ctx, filepath.Join(filepath.Dir(control), "postconf"), "-c", conf, "-h", "daemon_directory").Output()
	if err != nil {
		return fmt.Errorf("start postfix: ask where its programs are: %w", err)
	}
	log := filepath.Join(p.dir, "postfix.log")
	proc, err := child.Start("postfix", child.Spec{
		Program: filepath.Join(strings.TrimSpace(string(where)), "master"), Args: []string{"-c", conf, "-s"},
		Dir: p.dir, LogPath: log, Session: true,
	})
	if err != nil {
		return err
	}
	if err := awaitWithin(ctx, proc, log, "greeting", postfixAnswerWithin, func() (bool, error) { return greetsMail(p.Addr()) }); err != nil {
		return errors.Join(err, proc.Kill())
	}
	p.Set(proc)
	return nil
}

// prepare writes its configuration.
func (p *Postfix) prepare(account *account, opt PostfixOptions) error {
	conf, data := filepath.Join(p.dir, "conf"), filepath.Join(p.dir, "data")
	for _, d := range []string{p.dir, conf, data, filepath.Join(p.dir, "queue")} {
		if err := os.MkdirAll(d, postfixDirectoryMode); err != nil {
			return err
		}
	}
	if err := errors.Join(account.own(data), account.letThrough(conf)); err != nil {
		return err
	}
	next := "defer_transports = smtp"
	if opt.Next != "" {
		host, port, err := net.SplitHostPort(opt.Next)
		if err != nil {
			return fmt.Errorf("address of the next server %q: %w", opt.Next, err)
		}
		next = "relayhost = [" + host + "]:" + port
	}
	main := append([]string{
		"compatibility_level = 3.6",
		"queue_directory = " + filepath.Join(p.dir, "queue"),
		"data_directory = " + data,
		"maillog_file = " + filepath.Join(p.dir, "postfix.log"),
		"maillog_file_prefixes = " + p.dir,
		"myhostname = postfix.test",
		"inet_interfaces = 127.0.0.1",
		"inet_protocols = ipv4",
		"mynetworks = 127.0.0.0/8",
		"mydestination =",
		"alias_maps =",
		"local_transport = error:nobody lives here",
		"smtp_dns_support_level = disabled",
		next,
	}, opt.Settings...)
	return errors.Join(
		os.WriteFile(filepath.Join(conf, "main.cf"), []byte(strings.Join(main, "\n")+"\n"), postfixFileMode),
		os.WriteFile(filepath.Join(conf, "master.cf"), fmt.Appendf(nil, postfixServices, p.port), postfixFileMode))
}

// greetsMail reports whether an SMTP server is ready.
func greetsMail(address string) (bool, error) {
	conn, err := net.DialTimeout("tcp", address, postfixDialWithin)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(postfixDialWithin))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil {
		_, err = conn.Write([]byte("QUIT\r\n"))
	}
	return strings.HasPrefix(line, "220"), err
}

// Addr returns where it takes mail, host:port.
func (p *Postfix) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

// Stop ends it, and returns when its master is gone: the others end with it.
func (p *Postfix) Stop(ctx context.Context) error {
	return p.Current().Stop(ctx, postfixStopPatience)
}

// SMTPSink is Postfix's smtp-sink: a fast receiver of mail, written by others.
type SMTPSink struct {
	child.Runner
	port int
}

// StartSMTPSink starts one with further arguments, such as "-p" (no PIPELINING).
// Each mail becomes a file in dir, mail.NUMBER. It does not run as root.
func StartSMTPSink(ctx context.Context, dir string, args ...string) (*SMTPSink, error) {
	program, err := child.Find(postfixRemedy, "smtp-sink")
	if err != nil {
		return nil, fmt.Errorf("start smtp-sink: %w", err)
	}
	account, err := databaseAccount("nobody", postfixRemedy)
	if err == nil {
		err = errors.Join(account.own(dir), account.letThrough(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("start smtp-sink: %w", err)
	}
	s := &SMTPSink{}
	if err := onFreePort("smtp-sink", &s.port, func() error { return s.start(ctx, program, account, dir, args) }); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *SMTPSink) start(ctx context.Context, program string, account *account, dir string, args []string) error {
	log := filepath.Join(dir, "smtp-sink.log")
	proc, err := child.Start("smtp-sink", child.Spec{
		Program: program, Args: append(append([]string{"-d", "mail."}, args...), s.Addr(), "1000"), Dir: dir, LogPath: log, Credential: account.credential(),
	})
	if err != nil {
		return err
	}
	if err := awaitWithin(ctx, proc, log, "greeting", postfixAnswerWithin, func() (bool, error) { return greetsMail(s.Addr()) }); err != nil {
		return errors.Join(err, proc.Kill())
	}
	s.Set(proc)
	return nil
}

// Addr returns where it takes mail, host:port.
func (s *SMTPSink) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }
