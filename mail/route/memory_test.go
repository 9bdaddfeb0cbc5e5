package route

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"sluice/mail"
)

// What is remembered of a domain keeps no batch in memory: the address of a send shares
// that of the batch it was read from.
func TestDomainsKeepNoBatch(t *testing.T) {
	a := named("a")
	a.PerDomain = Pace{PerSecond: 10}
	r := newBed(t, Options{Routes: []Settings{a}})
	by := r.byName("a").transport
	for name, meet := range map[string]func(s *mail.Send, now time.Time){
		"takes":     func(s *mail.Send, now time.Time) { r.Takes(by, s, nil, now) },
		"elsewhere": func(s *mail.Send, now time.Time) { r.Elsewhere(s, nil, now) },
		"report":    func(s *mail.Send, now time.Time) { r.Report(by, s, &sent, now) },
		"ended":     func(s *mail.Send, now time.Time) { r.Ended(by, []*mail.Send{s}, []mail.Result{sent}, now) },
	} {
		batch := strings.Repeat("x", 1<<10) + "ann@" + name + ".example"
		of := weak.Make(unsafe.StringData(batch))
		meet(mailTo(batch[1<<10:]), r.clock.Now())
		batch = ""
		runtime.GC()
		if of.Value() != nil {
			t.Errorf("%s: the batch is kept with the domain of one of its sends", name)
		}
		if d := r.domains[name+".example"]; d == nil || d.name != name+".example" {
			t.Errorf("%s: the domain is remembered as %+v", name, d)
		}
	}
}
