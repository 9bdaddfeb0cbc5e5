package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	width := 79
	p := &progress{w: &out, terminal: true, width: func() int { return width }}
	p.at(0.5, strings.Repeat("long ", 40))
	p.at(0.6, "too soon after it")
	p.next = time.Time{}
	p.at(1.2, "all")
	p.next = time.Time{}
	p.say("who knows")
	p.next, width = time.Time{}, 30 // it was made narrow meanwhile
	p.at(0.5, strings.Repeat("long ", 40))
	p.end()
	p.end()
	want := "\r\x1b[K[############............]  50 %  " + strings.Repeat("long ", 10)[:45] +
		"\r\x1b[K[########################] 100 %  all\r\x1b[Kwho knows" +
		"\r\x1b[K[#####.....]  50 %  long long \r\x1b[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestProgressElsewhere(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out}
	p.at(0.5, "half")
	p.at(0.6, "too soon after it")
	p.end()
	if out.String() != "half\n" {
		t.Errorf("got %q", out.String())
	}
}
