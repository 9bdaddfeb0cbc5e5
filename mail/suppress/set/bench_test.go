package set

import (
	"fmt"
	"testing"

	"sluice"
)

// BenchmarkFind looks for 65,536 addresses in turn, every second of which is
// there.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{33_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := New(sluice.SystemClock{})
			s.Reserve(n)
			for i := range n {
				s.Add(s.HashOf(fmt.Sprintf("user-%d@example.com", i)), 3, 0)
			}
			texts := make([][]byte, 1<<16)
			for i := range texts {
				texts[i] = fmt.Appendf(nil, "user-%d@example.com", i*(2*n/len(texts)+1))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Find(s.Hash(texts[i&(1<<16-1)]), 0, 0)
			}
		})
	}
}
