package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Bounds of a screen whose size nobody tells, and of samples.
const (
	screenColumns = 79
	screenLines   = 24
	maxSamples    = 64
	rateWindow    = 2 * time.Second
)

// screen shows lines that change: redrawn in place on a terminal, elsewhere one
// after the other. Owned by one goroutine.
type screen struct {
	w        io.Writer
	terminal bool
	drawn    int // lines, last time
}

func newScreen(w io.Writer) screen { return screen{w: w, terminal: isTerminal(w)} }

// isTerminal reports whether lines can be redrawn on w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// size is how large it is.
func (s *screen) size() (columns, lines int) {
	if f, ok := s.w.(*os.File); ok && s.terminal {
		if columns, lines, ok = terminalSize(f); ok {
			return columns - 1, lines // the last column wraps on some
		}
	}
	return screenColumns, screenLines
}

// draw shows lines, in one write, so that nothing is seen half drawn. Each is cut
// to the width, since one that is wrapped would be two; and there are fewer than
// fit, since what has scrolled away cannot be drawn over. The last of them stays.
func (s *screen) draw(lines []string) {
	columns, most := s.size()
	if s.terminal && len(lines) >= most && most > 2 {
		lines = append(lines[:most-2:most-2], lines[len(lines)-1])
	}
	var b strings.Builder
	if s.terminal && s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn) // ECMA-48, 8.3.22: cursor up
	}
	for _, l := range lines {
		if r := []rune(l); len(r) > columns {
			l = string(r[:columns])
		}
		b.WriteString(l)
		if s.terminal {
			b.WriteString("\x1b[K") // ECMA-48, 8.3.41: erase to the end of the line
		}
		b.WriteString("\n")
	}
	if s.terminal {
		b.WriteString("\x1b[0J") // ECMA-48, 8.3.39: erase to the end of the page
	}
	s.drawn = len(lines)
	io.WriteString(s.w, b.String())
}

// rate is how fast a counter has grown over the last two seconds.
type rate struct{ samples []sample }

// sample is a look at a counter.
type sample struct {
	at    time.Time
	count int64
}

// at takes a look, and returns how much it grows in a second.
func (r *rate) at(count int64, now time.Time) float64 {
	if n := len(r.samples); n > 0 && count < r.samples[n-1].count {
		r.samples = nil // the process is another one
	}
	r.samples = append(r.samples, sample{now, count})
	for len(r.samples) > 2 && (now.Sub(r.samples[1].at) >= rateWindow || len(r.samples) > maxSamples) {
		r.samples = r.samples[1:]
	}
	first := r.samples[0]
	took := now.Sub(first.at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(count-first.count) / took
}
