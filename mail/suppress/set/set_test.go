package set

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/test/clocktest"
)

// entry is what a set holds.
type entry struct {
	text string
	mark Mark
}

// smallest is what Find must return, from a plain map.
func smallest(model map[entry]int64, text string, with, without Mark, now int64) (found Mark) {
	for e, end := range model {
		if e.text == text && (end == 0 || end > now) && e.mark&with == with && e.mark&without == 0 && (found == 0 || e.mark < found) {
			found = e.mark
		}
	}
	return found
}

// A set answers as a map does, whatever is added, removed and ends.
func TestSetIsAMap(t *testing.T) {
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	s := New(clock)
	model := make(map[entry]int64)
	random := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = fmt.Sprintf("u%d@example.com", i)
	}
	for step := range 30_000 {
		e := entry{texts[random.IntN(len(texts))], Mark(1 + random.IntN(5))}
		switch random.IntN(8) {
		case 0, 1:
			s.Remove(s.HashOf(e.text), e.mark)
			delete(model, e)
		case 2:
			end := clock.Now().Unix() + int64(random.IntN(100))
			s.Add(s.HashOf(e.text), e.mark, uint32(end))
			model[e] = end
		case 3:
			if step%100 == 3 {
				clock.Move(5 * time.Second)
			}
		default:
			s.Add(s.HashOf(e.text), e.mark, 0)
			model[e] = 0
		}
		if step%60 != 0 {
			continue
		}
		text, with, without := texts[random.IntN(len(texts))], Mark(random.IntN(3)), Mark(random.IntN(5))
		want := smallest(model, text, with, without, clock.Now().Unix())
		if got := s.Find(s.Hash([]byte(text)), with, without); got != want {
			t.Fatalf("step %d: Find(%s, %d, %d) = %d, want %d", step, text, with, without, got, want)
		}
	}
	if s.Len() < len(model)/2 || s.Len() > len(texts)*5 {
		t.Errorf("Len() = %d, the map has %d", s.Len(), len(model))
	}
}

// A reader finds what is there all the time, while other texts come and go and
// tables are written anew.
func TestReadersBesideWriters(t *testing.T) {
	s := New(sluice.SystemClock{})
	far := uint32(time.Now().Add(time.Hour).Unix())
	const stay = 2000
	for i := range stay {
		s.Add(s.HashOf(fmt.Sprint("stay", i)), 2, far*uint32(i%2))
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range 10_000 {
				h := s.HashOf(fmt.Sprint("come", w, i))
				s.Add(h, 1, far*uint32(i%3%2))
				if i%4 != 0 {
					s.Remove(h, 1)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if got := s.Find(s.HashOf(fmt.Sprint("stay", i%stay)), 0, 0); got != 2 {
					t.Errorf("stay%d has mark %d, want 2", i%stay, got)
					return
				}
				if got := s.Find(s.HashOf(fmt.Sprint("never", i)), 0, 0); got != 0 {
					t.Errorf("never%d was never added, and is found", i)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if want := stay + 2*2_500; s.Len() != want {
		t.Errorf("Len() = %d, want %d", s.Len(), want)
	}
}

// What has been removed or has ended leaves its memory to others.
func TestPlacesAreUsedAgain(t *testing.T) {
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	s := New(clock)
	for i := range 60_000 {
		h := s.HashOf(fmt.Sprint(i))
		s.Add(h, 1, uint32(clock.Now().Unix()+10)*uint32(i%2))
		if i%2 == 0 {
			s.Remove(h, 1)
		}
		if i%100 == 0 {
			clock.Move(time.Second)
		}
	}
	places := 0
	for i := range s.tables {
		places += len(s.tables[i].places.Load().words)
	}
	if places > 30_000 {
		t.Errorf("%d places for some 500 entries at a time", places)
	}
}

func TestReserveIsEnough(t *testing.T) {
	s := New(sluice.SystemClock{})
	const n = 200_000
	s.Reserve(n)
	before := s.tables[7].places.Load()
	for i := range n {
		s.Add(s.HashOf(fmt.Sprint(i)), 1, 0)
	}
	if s.tables[7].places.Load() != before {
		t.Error("a table was written anew")
	}
	if got := 9 * len(before.words) * tables / n; got > 13 {
		t.Errorf("%d bytes an entry, want 13 at most", got)
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	s := New(sluice.SystemClock{})
	text := []byte("someone@example.com")
	s.Add(s.Hash(text), 1, EndSeconds(time.Now().Add(time.Hour).UnixMilli()))
	if n := testing.AllocsPerRun(100, func() { s.Find(s.Hash(text), 0, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
