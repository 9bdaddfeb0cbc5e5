package smtp

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/proxy"
	"sluice/test/sink"
)

// benchBytes is the size of a mail of the benchmarks.
const benchBytes = 10 << 10

// cpu is what this process has computed.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// carry delivers b.N mails over one connection, a window a call. It reports
// mails a second and the CPU of a mail, client and sink together.
func carry(b *testing.B, address string, opt Options) {
	b.Helper()
	opt.Connections = 1
	r := newRelay(b, address, opt)
	all := envelopes(max(1, opt.Window), benchBytes)
	failed := 0
	done := func(_ int, one mail.Result) {
		if one.Kind != mail.ResultSent {
			failed++
		}
	}
	r.Deliver(b.Context(), all[:1], done) // connects
	b.ReportAllocs()
	b.ResetTimer()
	began := cpu(b)
	for left := b.N; left > 0; left -= len(all) {
		r.Deliver(b.Context(), all[:min(left, len(all))], done)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-µs/mail")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
	if failed > 0 {
		b.Errorf("%d mails were not sent", failed)
	}
}

// Mails of 10 KB to a sink on this machine.
func BenchmarkLoopback(b *testing.B) {
	ca := newAuthority(b)
	for _, mode := range modes {
		for _, window := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/window=%d", mode.name, window), func(b *testing.B) {
				s := startSink(b, sink.Options{Without: mode.without})
				carry(b, s.Addr(), Options{Window: window})
			})
		}
	}
	b.Run("chunking,TLS/window=16", func(b *testing.B) {
		s := startSink(b, sink.Options{TLS: ca.server(b, "relay.test")})
		carry(b, s.Addr(), Options{Window: 16, TLS: TLSStart, ServerName: "relay.test", Roots: ca.pool()})
	})
}

// The same 50 ms away: a reply takes 50 ms more.
func BenchmarkFarAway(b *testing.B) {
	for _, mode := range modes {
		for _, window := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/window=%d", mode.name, window), func(b *testing.B) {
				s := startSink(b, sink.Options{Without: mode.without})
				line, err := proxy.NewLine("tcp", s.Addr(), 25*time.Millisecond)
				if err != nil {
					b.Fatal(err)
				}
				defer line.Close()
				carry(b, line.Addr(), Options{Window: window})
			})
		}
	}
}
