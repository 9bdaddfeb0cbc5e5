package smtpd

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// tenKilobytes is the content of a mail, with its end.
var tenKilobytes = plainMail + strings.Repeat(strings.Repeat("x", 74)+"\r\n", 134) + ".\r\n"

func quietly(o *Options) { o.Log = slog.New(slog.DiscardHandler) }

func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drafts = m.drafts[:0]
}

// BenchmarkMail is what a mail of 10 KB costs from the first command to the
// answer, the client's part included. It is measured in lockstep, and with all
// that may be sent at once sent at once.
func BenchmarkMail(b *testing.B) {
	for _, way := range []struct {
		name  string
		parts []string
	}{
		{"lockstep", []string{"MAIL FROM:<ann@example.com>\r\n", "RCPT TO:<ben@example.com>\r\n", "DATA\r\n"}},
		{"pipelined", []string{envelope}},
	} {
		b.Run(way.name, func(b *testing.B) {
			r := start(b, open, quietly)
			c := r.dial()
			c.say("EHLO me", "250")
			b.ReportAllocs()
			b.SetBytes(int64(len(tenKilobytes)))
			for b.Loop() {
				for _, p := range way.parts {
					c.send(p)
					for range strings.Count(p, "\n") {
						c.reply()
					}
				}
				c.send(tenKilobytes)
				c.want("250")
				r.memory.forget()
			}
		})
	}
}

// BenchmarkTakenIn is how many mails of 10 KB a second are taken in over one and
// over 16 connections, in clear and under TLS. It also reports the CPU of a mail,
// its client's part included.
func BenchmarkTakenIn(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("tls=%t/connections=%d", secure, conns), func(b *testing.B) { takeIn(b, secure, conns) })
		}
	}
}

func takeIn(b *testing.B, secure bool, conns int) {
	r := start(b, open, quietly)
	clients := make([]*client, conns)
	for i := range clients {
		clients[i] = r.dial()
		if secure {
			clients[i] = clients[i].startTLS(r.trusted())
		}
		clients[i].say("EHLO me", "250")
	}
	before := cpuNanos(b)
	b.ResetTimer()
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			for n := i; n < b.N; n += conns {
				c.send(envelope)
				for range strings.Count(envelope, "\n") {
					c.reply()
				}
				c.send(tenKilobytes)
				if got := c.reply(); !strings.HasPrefix(got, "250") {
					b.Errorf("answered %q", got)
					return
				}
				r.memory.forget()
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
	b.ReportMetric(float64(cpuNanos(b)-before)/1e3/float64(b.N), "cpu-µs/mail")
}

// cpuNanos is the CPU time that this process has used, in nanoseconds.
func cpuNanos(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
