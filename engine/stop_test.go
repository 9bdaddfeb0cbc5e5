package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/config"
	"sluice/mail"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/sink"
)

// stopTime is how much time a stop has here: enough that a quarter of it is left on a busy
// machine.
const stopTime = 3 * time.Minute

// TestAStalledClientLeavesTheStopItsTime: a client of the SMTP listener begins a message and
// says nothing more. It is cut off soon, so that a mail on the wire is recorded.
func TestAStalledClientLeavesTheStopItsTime(t *testing.T) {
	onTheWire, goOn := make(chan struct{}, 10), make(chan struct{})
	answer := sync.OnceFunc(func() { close(goOn) })
	relay, err := sink.Start(sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnEnd {
			onTheWire <- struct{}{}
			<-goOn
		}
		return sink.Act{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	path := filepath.Join(t.TempDir(), "sluice.db")
	database := "sqlite:" + path
	settings := func(c *config.Config) {
		c.Sending, c.Domains.Check, c.SMTPD.Listen, c.SMTPD.RequireAuth = "on", false, "127.0.0.1:0", false
		c.Routes = []config.Route{{Name: "relay", Weight: 1, SMTP: config.SMTPRoute{URL: config.URL("smtp://" + relay.Addr()), Plain: true}}}
	}
	e := open(t, redis.URL(), database, 2, settings)
	t.Cleanup(answer)
	db := databaseOf(t, database)
	track(t, e, `{"attributes":[{"external_id":"p0","email":"p0@example.com"}]}`)
	await(t, "the person is there", func() bool {
		return len((&tracked{Engine: e, path: path}).texts(t, "SELECT name FROM user_keys WHERE name = 'p0'")) == 1
	})
	call(t, e, "/v1/messages", `[{"from":"us@example.org","to":[{"email":"p0@example.com","user_id":"p0"}],"subject":"News","text":"Hello","class":"marketing"}]`)
	<-onTheWire

	client, err := net.Dial("tcp", e.SMTPAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "EHLO me\r\nMAIL FROM:<us@example.org>\r\nRCPT TO:<p1@example.com>\r\nDATA\r\n"); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(client)
	for line := ""; !strings.HasPrefix(line, "354"); {
		if line, err = replies.ReadString('\n'); err != nil || line[0] > '3' {
			t.Fatalf("%q, %v", line, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx) }()
	_, _ = io.Copy(io.Discard, replies) // until it is cut off
	if ctx.Err() != nil {
		t.Error("the client has used all the time of the stop")
	}
	answer()
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "messages were cut off") || ctx.Err() != nil {
		t.Errorf("the stop says %v, its time: %v", err, ctx.Err())
	}
	open(t, redis.URL(), database, 2, settings)
	await(t, "the outcome of the mail is stored", func() bool {
		rows := sendsOf(t, db, "p0")
		if len(rows) == 1 && rows[0].State == mail.SendInDoubt {
			t.Fatal("the mail on the wire is in doubt")
		}
		return len(rows) == 1 && rows[0].State == mail.SendSent
	})
}

// TestADatabaseThatHangsLeavesTheStopItsTime: people cannot be moved to the end of what is
// in hand. The other followers end their reading all the same, with time left for the rest.
func TestADatabaseThatHangsLeavesTheStopItsTime(t *testing.T) {
	redis, database := sharedServers(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	way, err := proxy.New("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	e := open(t, redis, strings.Replace(database, u.Host, way.Addr(), 1), 2)
	var steps strings.Builder // somebody is due each second
	for n := range 120 {
		fmt.Fprintf(&steps, "  - {id: s%d, delay: {for: 1s}, next: s%d}\n", n, n+1)
	}
	publish(t, databaseOf(t, database, "x"), "\nid: a\nentry: {when: {event: signup}}\nsteps:\n  - {id: one, message: {template: x}, next: s0}\n"+steps.String()+"  - {id: s120, delay: {for: 1s}}\n")
	all(t, e, 10, "signup")
	await(t, "people are moved", func() bool { return counts(t, e, "journey/a/one/passed") == 10 })
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var left error
	e.OnFetchEnd(func() {
		left = ctx.Err()
		way.Resume()
	})
	way.Stall()
	t.Cleanup(way.Resume)
	stalled := time.Now()
	await(t, "who moves people waits for the database", func() bool { return time.Since(stalled) > 3*time.Second })
	err = e.Stop(ctx)
	if left != nil {
		t.Error(fmt.Errorf("the others read on until the time was over: %w", left))
	}
	if err != nil {
		t.Error(err)
	}
}
