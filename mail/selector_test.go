package mail

import (
	"strings"
	"testing"
)

func TestSelectorsByName(t *testing.T) {
	id := strings.Repeat("a1", 16)
	for _, s := range []Selector{{SelectAll, ""}, {SelectClass, "marketing"}, {SelectPriority, "low"}, {SelectRoute, "a:b"}, {SelectTag, "x:y z"}, {SelectMessage, id}} {
		made, err := NewSelector(s.By, s.Value)
		if err != nil || made != s {
			t.Errorf("%+v: %+v, %v", s, made, err)
		}
		if got, ok := ParseSelector(s.Name()); !ok || got != s {
			t.Errorf("%+v is named %q, which is %+v", s, s.Name(), got)
		}
	}
	for _, name := range []string{"", "spam", "priority:", "priority:huge", "tag:", "tag:a,b", "tag:\x01", "route:", "message:1", "all:x", "moon:1", "class:x", "tag:" + strings.Repeat("x", MaxTagBytes+1)} {
		if s, ok := ParseSelector(name); ok {
			t.Errorf("%q is %+v", name, s)
		}
	}
}

func TestSelectorsOfRows(t *testing.T) {
	send := StoredSend{Send: Send{Message: strings.Repeat("a1", 16), Priority: PriorityLow, Class: ClassMarketing, Tags: "spring,news", Route: "asked"}}
	r := NewSendRow(&send)
	r.Route = "tried"
	for name, want := range map[string]bool{
		"all": true, "marketing": true, "transactional": false, "priority:low": true, "priority:high": false, "tag:news": true, "tag:spring": true,
		"tag:spring,news": false, "tag:spr": false, "tag:ing": false, "route:asked": true, "route:tried": true, "route:other": false,
		"message:" + send.Message: true, "message:" + strings.Repeat("b1", 16): false,
	} {
		s, ok := ParseSelector(name)
		if !ok {
			s = Selector{SelectTag, strings.TrimPrefix(name, "tag:")}
		}
		if got := s.TakesRow(&r); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
