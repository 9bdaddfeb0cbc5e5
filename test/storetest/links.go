package storetest

import (
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

func linksOf(t *testing.T, f *fixture) store.LinkStore {
	t.Helper()
	links, ok := f.store.(store.LinkStore)
	if !ok {
		t.Fatal("the store keeps no links")
	}
	return links
}

// testLinks: targets are kept byte for byte under their hashes, a repeat changes nothing,
// and those that no mail has used for long go, in pieces.
func testLinks(t *testing.T, f *fixture) {
	s := linksOf(t, f)
	all := map[string]string{"a": "https://shop.example/" + strings.Repeat("x", 8<<10), "B": "https://shop.example/ä?b=%C3&c=日本", "b": "https://shop.example/'\"\\"}
	for range 2 {
		must(t, s.PutLinks(f.ctx, all))
	}
	must(t, s.PutLinks(f.ctx, map[string]string{"a": "https://evil.example/"}))
	for hash, want := range all {
		if got, err := s.Link(f.ctx, hash); err != nil || got != want {
			t.Errorf("%s: %.40q %v, want %.40q", hash, got, err, want)
		}
	}
	_, err := s.Link(f.ctx, "c")
	wantCode(t, err, sluice.CodeNotFound)
	many := map[string]string{}
	for n := range 2500 {
		many[fmt.Sprintf("n%04d", n)] = "https://shop.example/"
	}
	must(t, s.PutLinks(f.ctx, many))
	testLinkTurns(t, f)
	keep := f.store.(store.RetentionStore)
	for _, x := range []struct {
		before int64
		want   int
	}{{1, 0}, {4_000_000_000_000, len(many) + len(all)}} {
		deleted, pieces := 0, 1
		for after := ""; ; pieces++ {
			n, next, err := keep.DeleteLinks(f.ctx, after, x.before)
			must(t, err)
			deleted += n
			if after = next; after == "" {
				break
			}
		}
		if deleted != x.want || pieces < 3 {
			t.Errorf("before %d: %d deleted in %d pieces, want %d in 3", x.before, deleted, pieces, x.want)
		}
	}
}

// testLinkTurns: however many links a mail has, its transaction takes a few round trips. The
// mail waits for it.
func testLinkTurns(t *testing.T, f *fixture) {
	if f.OpenThrough == nil {
		return
	}
	far, way := f.OpenThrough(t)
	links := far.(store.LinkStore)
	var turns []int64
	for range 2 { // the first opens a connection
		mail := map[string]string{}
		for n := range 100 {
			mail[fmt.Sprintf("n%04d", n)] = "https://shop.example/"
		}
		before := way.Turns()
		must(t, links.PutLinks(f.ctx, mail))
		turns = append(turns, way.Turns()-before)
	}
	if turns[1] > 8 {
		t.Errorf("100 links take %d round trips", turns[1])
	}
}
