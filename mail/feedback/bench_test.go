package feedback

import (
	"testing"

	"sluice"
	"sluice/mail"
)

// BenchmarkResult is what counting costs a mail that is sent, with a tag.
func BenchmarkResult(b *testing.B) {
	w := &Watch{Limits: limits, Clock: sluice.SystemClock{}}
	s := &mail.Send{Class: mail.ClassMarketing, Tags: "autumn,2026"}
	b.ReportAllocs()
	for b.Loop() {
		w.Result(s, "relay", &sent)
	}
}
