package rewrite

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/track/link"
)

// shelf keeps targets, or fails.
type shelf struct {
	kept   map[string]string
	puts   int
	failed error
	hangs  bool
}

func (s *shelf) PutLinks(ctx context.Context, targets map[string]string) error {
	s.puts++
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.failed != nil {
		return s.failed
	}
	for hash, target := range targets {
		s.kept[hash] = target
	}
	return nil
}

func (s *shelf) Link(context.Context, string) (string, error) { panic("nobody asks here") }

// Long links are kept before they are in a mail, once for all mails that have them, and
// their tokens sign their hashes. Where they cannot be kept they stay as they are, after one
// mail has tried, and the others are tracked. Too long ones stay, too.
func TestLongLinks(t *testing.T) {
	long, longest := "https://shop.example/?a=1&b="+strings.Repeat("x", link.MaxTargetBytes), "https://shop.example/"+strings.Repeat("y", link.MaxLongTargetBytes)
	source := `<a href="` + strings.ReplaceAll(long, "&", "&amp;") + `">x</a><a href='https://short.example/'>y</a><a href="` + longest + `">z</a>`
	for name, x := range map[string]struct {
		store  *shelf
		none   bool
		long   bool
		puts   int
		shared bool
	}{
		"kept":              {&shelf{kept: map[string]string{}}, false, true, 1, false},
		"kept, to many":     {&shelf{kept: map[string]string{}}, false, true, 1, true},
		"not kept":          {&shelf{failed: errors.New("away")}, false, false, 1, false},
		"not kept, to many": {&shelf{failed: errors.New("away")}, false, false, 1, true},
		"no table":          {nil, true, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := New(keys(t), all)
			if !x.none {
				tr.Kept = x.store
			}
			for n := range 3 {
				var made string
				if x.shared {
					made = mime.FindHTML(tr.Message(t.Context(), build(t, source), tracked(n, 3, mail.TrackClicks))).Text
				} else {
					var ok bool
					if made, ok = tr.HTML(t.Context(), source, tracked(n, 1, mail.TrackClicks)); !ok {
						t.Fatal("it is as it was")
					}
				}
				_, query, found := strings.Cut(made, link.LongQuery)
				hash, _, _ := strings.Cut(query, `"`)
				if found != x.long || found && x.store.kept[hash] != long || !strings.Contains(made, link.TargetQuery+"https%3A%2F%2Fshort.example%2F") {
					t.Errorf("%d: long %v, %q\n%.3000s", n, found, hash, made)
				}
				if strings.Contains(made, "b="+strings.Repeat("x", 60)) == x.long || !strings.Contains(made, strings.Repeat("y", 60)) {
					t.Errorf("%d: what was long\n%.300s", n, made)
				}
				if token, _, _ := strings.Cut(made[strings.Index(made, link.ClickPath)+len(link.ClickPath):], "?"); x.long {
					if _, err := keys(t).Read(link.KindClick, token, link.LongText(hash)); err != nil {
						t.Errorf("%d: %q: %v", n, token, err)
					}
				}
			}
			if x.store != nil && x.store.puts != x.puts {
				t.Errorf("written %d times, want %d", x.store.puts, x.puts)
			}
		})
	}
}

// The mails of a mailing write its long targets again after keptFor: a database that has gone
// back gets them. Where it cannot, the links of the mails meanwhile stay as they are.
func TestLongLinksAgain(t *testing.T) {
	long := "https://shop.example/?b=" + strings.Repeat("x", link.MaxTargetBytes)
	content := build(t, `<a href="`+long+`">x</a>`)
	s := &shelf{kept: map[string]string{}}
	tr := New(keys(t), all)
	tr.Kept = s
	for n, x := range []struct {
		later  bool
		fails  error
		puts   int
		stored bool
		long   bool
	}{
		{false, nil, 1, true, true}, {false, nil, 1, false, true}, {true, nil, 2, true, true}, {false, nil, 2, false, true},
		{true, errors.New("away"), 3, false, false}, {false, nil, 3, false, false},
	} {
		if s.failed = x.fails; x.later {
			tr.kept.since = tr.kept.since.Add(-keptFor)
		}
		made := mime.FindHTML(tr.Message(t.Context(), content, tracked(n, 9, mail.TrackClicks))).Text
		if strings.Contains(made, link.LongQuery) != x.long || s.puts != x.puts || (len(s.kept) == 1) != x.stored {
			t.Errorf("%d: written %d times, %d targets, %.200s", n, s.puts, len(s.kept), made)
		}
		clear(s.kept) // the database goes back
	}
}

// A mailing is read once in all while its targets cannot be kept, and once where they are.
func TestLongLinksAreReadOnce(t *testing.T) {
	s := &shelf{failed: errors.New("away")}
	tr := New(keys(t), all)
	tr.Kept = s
	content := build(t, `<a href="https://shop.example/?b=`+strings.Repeat("x", link.MaxTargetBytes)+`">x</a><a href="https://a/">y</a>`)
	first := tr.layout(t.Context(), content, tracked(0, 9, mail.TrackClicks))
	again := tr.layout(t.Context(), content, tracked(1, 9, mail.TrackClicks))
	if first.message != again.message || len(first.slots) != 1 || len(tr.layouts.kept) != 2 {
		t.Errorf("away: %d links, %d layouts, the same %v", len(first.slots), len(tr.layouts.kept), first.message == again.message)
	}
	s.failed, s.kept, tr.kept.failed = nil, map[string]string{}, time.Time{}
	first = tr.layout(t.Context(), content, tracked(2, 9, mail.TrackClicks))
	again = tr.layout(t.Context(), content, tracked(3, 9, mail.TrackClicks))
	if first.message != again.message || len(first.slots) != 2 || len(tr.layouts.kept) != 2 || len(s.kept) != 1 {
		t.Errorf("back: %d links, %d layouts, the same %v, %d targets", len(first.slots), len(tr.layouts.kept), first.message == again.message, len(s.kept))
	}
}

// A mail of a mailing with long links, where their targets are kept and while the database
// is away.
func BenchmarkLongLinks(b *testing.B) {
	source := document()
	for i := range 20 {
		source += `<a href="https://shop.example/?a=` + strconv.Itoa(i) + strings.Repeat("x", 4*link.MaxTargetBytes) + `">x</a>`
	}
	content := build(b, source)
	for name, s := range map[string]*shelf{"kept": {kept: map[string]string{}}, "away": {failed: errors.New("away")}} {
		b.Run(name, func(b *testing.B) {
			tr := New(keys(b), all)
			tr.Kept = s
			for b.Loop() {
				tr.Message(b.Context(), content, tracked(0, 1000, mail.TrackAll))
			}
		})
	}
}

// A long link with an address of mail stays as it is: nothing of a person is kept. A short
// one is in its own URL, and no other link is taken for one.
func TestLongLinksNameNobody(t *testing.T) {
	filler := "&b=" + strings.Repeat("x", link.MaxTargetBytes)
	for target, want := range map[string]bool{
		"https://shop.example/?email=ann@example.com" + filler:               false,
		"https://shop.example/?email=Ann%40Example%2Ecom" + filler:           false,
		"https://shop.example/?next=%2Fx%3Fe%3Dann%2540example.com" + filler: false,
		"https://shop.example/u/j%C3%BC@ex-ample.co.uk/?a=1" + filler:        false,
		"https://shop.example/?email=ann@example.com":                        true,
		"https://shop.example/@ann.b/maps/@52.5,13.4?a=40&b=%40x" + filler:   true,
		"https://shop.example/?a=@b.c&d=1@2" + filler:                        true,
	} {
		s := &shelf{kept: map[string]string{}}
		tr := New(keys(t), all)
		tr.Kept = s
		made, ok := tr.HTML(t.Context(), `<a href="`+strings.ReplaceAll(target, "&", "&amp;")+`">x</a>`, tracked(0, 1, mail.TrackClicks))
		if ok != want || strings.Contains(made, link.ClickPath) != want || !want && s.puts != 0 {
			t.Errorf("%.60s: tracked %v, want %v, written %d times", target, ok, want, s.puts)
		}
	}
}

// After a failure no mail waits for the database, until some seconds are over; who has no
// time for it is no failure of it. What is known to be kept is, meanwhile.
func TestKeptRests(t *testing.T) {
	away := errors.New("away")
	ended, end := context.WithCancel(t.Context())
	end()
	var k kept
	s := &shelf{kept: map[string]string{}}
	for i, x := range []struct {
		ctx    context.Context
		target string
		fails  error // of the database
		later  bool  // than the rest
		want   error
		puts   int
	}{
		{t.Context(), "a", nil, false, nil, 1},
		{ended, "b", away, false, away, 2},
		{t.Context(), "b", away, false, away, 3},
		{t.Context(), "c", nil, false, errKeptRests, 3},
		{t.Context(), "a", away, false, nil, 3},
		{t.Context(), "c", away, true, away, 4},
		{t.Context(), "c", nil, false, errKeptRests, 4},
		{t.Context(), "c", nil, true, nil, 5},
		{t.Context(), "d", nil, false, nil, 6},
	} {
		if s.failed = x.fails; x.later {
			k.failed = k.failed.Add(-keptRest)
		}
		if err := k.put(x.ctx, s, []longTarget{{x.target, x.target}}); !errors.Is(err, x.want) || s.puts != x.puts {
			t.Errorf("%d: %v after %d writes, want %v after %d", i, err, s.puts, x.want, x.puts)
		}
	}
}

// A mail that has waited in vain for its targets keeps no other from trying; some in a row
// do.
func TestKeptWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		s := &shelf{kept: map[string]string{}}
		for i, x := range []struct {
			hangs bool
			want  error
			puts  int
		}{
			{true, context.DeadlineExceeded, 1}, {false, nil, 2},
			{true, context.DeadlineExceeded, 3}, {true, context.DeadlineExceeded, 4}, {false, nil, 5},
			{true, context.DeadlineExceeded, 6}, {true, context.DeadlineExceeded, 7}, {true, context.DeadlineExceeded, 8}, {true, errKeptRests, 8}, {false, errKeptRests, 8},
		} {
			s.hangs = x.hangs
			if err := k.put(t.Context(), s, []longTarget{{strconv.Itoa(i), ""}}); !errors.Is(err, x.want) || s.puts != x.puts {
				t.Errorf("%d: %v after %d writes, want %v after %d", i, err, s.puts, x.want, x.puts)
			}
		}
	})
}
