package suppress

import (
	"fmt"
	"testing"

	"sluice"
	"sluice/mail"
)

// BenchmarkCheck asks for 65,536 recipients in turn, one of ten on a list of
// 1,000,000 addresses and 33,000 domains.
func BenchmarkCheck(b *testing.B) {
	l := NewList(sluice.SystemClock{})
	s := l.sets.Load()
	s.addresses.Reserve(1_000_000)
	for i := range 1_000_000 {
		s.change(&mail.Suppression{Entry: fmt.Sprintf("user.%d@example.com", i), Reason: mail.SuppressHardBounce}, 0)
	}
	for i := range 33_000 {
		s.change(&mail.Suppression{Entry: fmt.Sprintf("bad-%d.example", i), Reason: mail.SuppressBadDomain}, 0)
	}
	recipients := make([]string, 1<<16)
	for i := range recipients {
		recipients[i] = fmt.Sprintf("somebody.%d@mail%d.example.org", i, i%500)
		if i%10 == 0 {
			recipients[i] = fmt.Sprintf("user.%d@example.com", i*15)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Check(recipients[i&(1<<16-1)], mail.ClassMarketing, "shop")
	}
}
