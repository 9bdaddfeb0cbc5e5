package spool

import (
	"testing"
	"time"

	"sluice/mail"
)

// relayTimes is a relay that answers the first mail of a window after first and each
// other after each.
type relayTimes struct{ first, each time.Duration }

// windows has a tempo carry so many windows, and returns how large they were.
func (r relayTimes) windows(t *tempo, n int) (sizes []int) {
	for range n {
		size := t.window()
		sizes = append(sizes, size)
		t.learn(size, r.first, r.first+time.Duration(size-1)*r.each)
	}
	return sizes
}

// Windows follow a relay: one mail where each takes a second, all where replies come
// together, however late; and back again.
func TestTempo(t *testing.T) {
	slow, fast := relayTimes{time.Second, time.Second}, relayTimes{20 * time.Millisecond, time.Millisecond}
	for name, c := range map[string]struct {
		relay relayTimes
		want  int
	}{
		"near":                         {fast, 64},
		"far":                          {relayTimes{3 * time.Second, 2 * time.Millisecond}, 64},
		"slow":                         {slow, 1},
		"half a second":                {relayTimes{500 * time.Millisecond, 500 * time.Millisecond}, 2},
		"a tenth":                      {relayTimes{100 * time.Millisecond, 100 * time.Millisecond}, 6},
		"answers the first at once":    {relayTimes{time.Millisecond, time.Second}, 1},
		"answers nothing one by one":   {relayTimes{time.Second, 0}, 64},
		"a second, and a tenth beside": {relayTimes{time.Second, 100 * time.Millisecond}, 6},
	} {
		tempo := newTempo(64)
		sizes := c.relay.windows(&tempo, 40)
		if sizes[0] != tempoStart {
			t.Errorf("%s: begins with %d", name, sizes[0])
		}
		probes := 0
		for _, n := range sizes[20:] {
			if n == 2 && c.want == 1 {
				probes++
			} else if n != c.want {
				t.Errorf("%s: a window of %d, want %d: %v", name, n, c.want, sizes)
				break
			}
		}
		if probes > 3 {
			t.Errorf("%s: %d of 20 windows are probes", name, probes)
		}
	}
	tempo := newTempo(16)
	fast.windows(&tempo, 10)
	if sizes := slow.windows(&tempo, 6); sizes[0] != 16 || sizes[4] != 1 {
		t.Errorf("a relay becomes slow: %v", sizes)
	}
	if sizes := fast.windows(&tempo, probeEvery+6); sizes[len(sizes)-1] != 16 {
		t.Errorf("it becomes fast again: %v", sizes)
	}
	if tempo.cut(0); tempo.window() != 16 {
		t.Error("a window of which nothing was begun changes the next")
	}
	if tempo.cut(3); tempo.window() != 3 {
		t.Error("a window of which three mails were begun in time is followed by another of more, or fewer")
	}
	if sizes := fast.windows(&tempo, 8); sizes[len(sizes)-1] != 16 {
		t.Errorf("then all are begun in time: %v", sizes)
	}
	learned := func(why error) int {
		tempo := newTempo(16)
		fast.windows(&tempo, 10)
		l, now, c := lap{began: time.Now()}, time.Now(), &crew{tempo: tempo}
		l.note(&mail.Result{Kind: mail.ResultSent}, now)
		for range 15 {
			l.note(&mail.Result{Kind: mail.ResultUntried, Held: why}, now)
		}
		(&Sender{}).learn(c, 16, &l)
		return c.tempo.window()
	}
	if late, stopped := learned(errLate), learned(errStopped); late != 1 || stopped != 16 {
		t.Errorf("15 of 16 mails are held back: a window of %d if they are late, of %d if they are stopped", late, stopped)
	}
	one := newTempo(1)
	if sizes := slow.windows(&one, 20); sizes[19] != 1 {
		t.Errorf("a transport with windows of one: %v", sizes)
	}
}
