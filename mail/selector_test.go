package mail

import (
	"strings"
	"testing"
)

func TestSelectorsByName(t *testing.T) {
	id := strings.Repeat("a1", 16)
	for _, s := range []Selector{
		{By: SelectAll}, {By: SelectClass, Value: "marketing"}, {By: SelectPriority, Value: "low"}, {By: SelectRoute, Value: "a:b"}, {By: SelectTag, Value: "x:y z"},
		{By: SelectMessage, Value: id}, {SelectRoute, "a/b:c", ClassMarketing}, {SelectTag, "x", ClassTransactional}, {SelectMessage, id, ClassMarketing},
	} {
		made, err := NewSelector(s.By, s.Value)
		if err == nil && s.Class != 0 {
			made, err = made.Of(s.Class.String())
		}
		if err != nil || made != s {
			t.Errorf("%+v: %+v, %v", s, made, err)
		}
		if got, ok := ParseSelector(s.Name()); !ok || got != s {
			t.Errorf("%+v is named %q, which is %+v", s, s.Name(), got)
		}
	}
	for _, name := range []string{"", "spam", "priority:", "priority:huge", "tag:", "tag:a,b", "tag:\x01", "route:", "message:1", "all:x", "moon:1", "domain:example.com", "sender:example.com", "class:x", "tag:" + strings.Repeat("x", MaxTagBytes+1),
		"marketing/priority:low", "marketing/all", "spam/tag:x", "/tag:x", "marketing/transactional/tag:x"} {
		if s, ok := ParseSelector(name); ok {
			t.Errorf("%q is %+v", name, s)
		}
	}
}

func TestSelectorsOfRows(t *testing.T) {
	send := StoredSend{Send: Send{Message: strings.Repeat("a1", 16), Priority: PriorityLow, Class: ClassMarketing, Tags: "spring,news", Route: "asked"}}
	send.From, send.To = "Bounces+7@News.Example", "ann@Mail.example.com"
	r := NewSendRow(&send)
	r.Route = "tried"
	for name, want := range map[string]bool{
		"all": true, "marketing": true, "transactional": false, "priority:low": true, "priority:high": false, "tag:news": true, "tag:spring": true,
		"tag:spring,news": false, "tag:spr": false, "tag:ing": false, "route:asked": true, "route:tried": true, "route:other": false,
		"marketing/tag:news": true, "transactional/tag:news": false, "marketing/route:tried": true, "transactional/route:tried": false,
		"message:" + send.Message: true, "message:" + strings.Repeat("b1", 16): false,
	} {
		s, ok := ParseSelector(name)
		if !ok {
			s = Selector{By: SelectTag, Value: strings.TrimPrefix(name, "tag:")}
		}
		if got := s.TakesRow(&r); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, c := range []struct {
		by, value   string
		takes, none bool
	}{
		{SelectDomain, "mail.EXAMPLE.com", true, false}, {SelectDomain, "example.com", false, false}, {SelectDomain, "news.example", false, false},
		{SelectSender, "news.example", true, false}, {SelectSender, "bounces+7@news.example", true, false}, {SelectSender, "7@news.example", false, false},
		{SelectSender, "example", false, false}, {SelectDomain, "ann@mail.example.com", false, true}, {SelectDomain, "", false, true},
		{SelectDomain, "*.example.com", false, true}, {SelectSender, "@news.example", false, true}, {SelectSender, "a@", false, true}, {SelectDomain, strings.Repeat("x", 255), false, true},
	} {
		s, err := NewSelector(c.by, c.value)
		if (err != nil) != c.none || err == nil && (s.TakesRow(&r) != c.takes || s.Stops()) {
			t.Errorf("%s %s: %+v, %v", c.by, c.value, s, err)
		}
	}
}
