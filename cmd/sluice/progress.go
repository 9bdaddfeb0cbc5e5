package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	progressEveryLine   = 5 * time.Second // where lines scroll
	progressEveryRedraw = 100 * time.Millisecond
	progressCells       = 24 // of the bar, on a terminal that has room for it
	progressPart        = 3  // the part of a narrow terminal that the bar takes: a third
)

// progress says where a long command is: on a terminal a bar that is redrawn,
// elsewhere a line now and then. Its methods may be called from several
// goroutines at once.
type progress struct {
	w        io.Writer
	terminal bool
	width    func() int // of the terminal, in cells, as it is now

	mu    sync.Mutex
	next  time.Time
	drawn bool
}

func (c *call) progress() *progress {
	s := newScreen(c.main.Stderr)
	p := &progress{w: s.w, terminal: s.terminal, width: func() int { columns, _ := s.size(); return columns }}
	c.bar = p
	c.later(func() error { p.end(); return nil })
	if !p.terminal {
		p.next = time.Now().Add(progressEveryLine)
	}
	return p
}

// say tells what is being done, where nobody knows how much is left.
func (p *progress) say(what string) { p.at(-1, what) }

// at tells which part is done, from 0 to 1, and what else there is to say.
func (p *progress) at(part float64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	if !p.terminal {
		p.next = now.Add(progressEveryLine)
		fmt.Fprintln(p.w, what)
		return
	}
	p.next, p.drawn = now.Add(progressEveryRedraw), true
	width := p.width() // a line that is wrapped would stay when the next is drawn
	line := []rune(what)
	if part >= 0 {
		cells := min(progressCells, width/progressPart)
		done := int(min(part, 1) * float64(cells))
		line = []rune(fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("#", done), strings.Repeat(".", cells-done), 100*min(part, 1), what))
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", string(line[:min(len(line), width)]))
}

// end takes the bar away: what follows stands at the beginning of a line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// partOf is how much of it has been done; -1: nobody knows.
func partOf(done, all int64) float64 {
	if all <= 0 {
		return -1
	}
	return float64(done) / float64(all)
}
