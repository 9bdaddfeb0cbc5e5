package land

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"sluice"
	"sluice/track/link"
)

// shelf has targets, or none while it is away.
type shelf struct {
	targets map[string]string
	away    error
	asked   int
}

func (s *shelf) Link(_ context.Context, hash string) (string, error) {
	s.asked++
	if s.away != nil {
		return "", s.away
	}
	if target, ok := s.targets[hash]; ok {
		return target, nil
	}
	return "", &sluice.Error{Code: sluice.CodeNotFound, Index: -1}
}

// A click on a long link leads to the target that is kept under the hash which its token
// signs, from memory once it was read. While the database is away one that is not in
// memory is answered 503, with nowhere to go, and no click is recorded. Whatever the
// table says: nobody is led elsewhere.
func TestLongTargets(t *testing.T) {
	k := newKit(t)
	long, other := "https://shop.example/?a="+strings.Repeat("ü", 1000), "https://shop.example/?b="+strings.Repeat("x", 2000)
	s := &shelf{targets: map[string]string{link.Hash(long): long}}
	k.o.Targets, k.targets = s, newTargets(s)
	want := "https://shop.example/?a=" + strings.Repeat("%C3%BC", 1000)
	ask := func(path string, status int, location string) {
		t.Helper()
		before := len(k.logs.events)
		w := k.ask(request("GET", path, browser))
		if w.Code != status || w.Header().Get("Location") != location || w.Body.Len() != 0 || (w.Header().Get("Retry-After") != "") != (status == 503) {
			t.Errorf("%.80s: %d %v", path, w.Code, w.Header())
		}
		if n := len(k.logs.events) - before; (n == 1) != (status == 302) {
			t.Errorf("%.80s: %d events", path, n)
		}
	}
	first, second := k.click(t, long), k.click(t, other)
	s.away = errors.New("away")
	ask(first, 503, "")
	s.away = nil
	ask(first, 302, want)
	ask(second, 404, "") // it is not kept any more
	s.away = errors.New("away")
	ask(first, 302, want)
	ask(second, 503, "")
	s.away = nil
	s.targets[link.Hash(other)] = "https://evil.example/"
	ask(second, 404, "")
	token, _, _ := strings.Cut(first, "?")
	asked := s.asked
	ask(token+link.LongQuery+link.Hash(other), 404, "")
	ask(first+"x", 404, "")
	ask(token+"?l=", 404, "")
	ask(token, 404, "")
	if s.asked != asked {
		t.Error("the database is asked about what nobody has signed")
	}
	if e := k.logs.events[0]; !strings.Contains(e.Properties, `"link":2,"url":"https://shop.example/?a=üü`) {
		t.Errorf("%.200s", e.Properties)
	}
}

// What is in memory is bounded in bytes, and the oldest goes first.
func TestTargetsAreBounded(t *testing.T) {
	s := newTargets(nil)
	s.most = 10_000
	for n := range 50 {
		target := strings.Repeat(string(rune('a'+n%26)), 1500+n)
		s.put(link.Hash(target), target)
	}
	sum := 0
	for hash, target := range s.kept {
		sum += len(hash) + len(target) + 64
	}
	if sum != s.bytes || sum > s.most || len(s.kept) < 5 || len(s.kept) != len(s.order) {
		t.Errorf("%d targets of %d bytes, counted %d", len(s.kept), sum, s.bytes)
	}
}

// What is kept of a target is counted: not the request that has asked for it.
func TestTargetsKeepNoRequest(t *testing.T) {
	long := "https://shop.example/?a=" + strings.Repeat("x", 2000)
	kept := newTargets(&shelf{targets: map[string]string{link.Hash(long): long}})
	head := strings.Repeat("x", plainBytes) + link.Hash(long)
	of := weak.Make(unsafe.StringData(head))
	if got, err := kept.find(t.Context(), head[plainBytes:]); got != long || err != nil {
		t.Fatal(got, err)
	}
	head = ""
	runtime.GC()
	if of.Value() != nil {
		t.Error("the text of a request is kept with the hash")
	}
	runtime.KeepAlive(kept)
}
