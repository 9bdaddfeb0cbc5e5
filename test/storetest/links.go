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
	keep := f.store.(store.KeepStore)
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
