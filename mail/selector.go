package mail

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice"
)

// Selector says which mail an operator means: all, or that of a class, of a
// priority, of a route, with a tag, or of one message. By its name it is stopped
// in all processes.
type Selector struct {
	By    string // one of SelectorWords
	Value string // empty with "all"
}

// SelectorWords are by what mail can be selected.
var SelectorWords = []string{SelectAll, SelectClass, SelectPriority, SelectRoute, SelectTag, SelectMessage}

// The words.
const (
	SelectAll      = "all"
	SelectClass    = "class"
	SelectPriority = "priority"
	SelectRoute    = "route"
	SelectTag      = "tag"
	SelectMessage  = "message"
)

// MaxStops bounds what is stopped at once: each has a sublane of its own.
const MaxStops = 24

// NewSelector checks a selection.
func NewSelector(by, value string) (Selector, error) {
	s := Selector{By: by, Value: value}
	_, class := ParseClass(value)
	_, priority := ParsePriority(value)
	switch {
	case !slices.Contains(SelectorWords, by):
		return s, fmt.Errorf("select mail by %.32q: want one of %s", by, strings.Join(SelectorWords, ", "))
	case by == SelectAll && value != "":
		return s, fmt.Errorf("select all mail: %.64q is one thing too many", value)
	case by == SelectClass && !class:
		return s, fmt.Errorf("select mail of the class %.32q: want transactional or marketing", value)
	case by == SelectPriority && !priority:
		return s, fmt.Errorf("select mail of the priority %.32q: want high, normal or low", value)
	case by == SelectMessage && !sluice.ValidMessageID(value):
		return s, fmt.Errorf("select the message %.64q: want the id of one, %d hexadecimal digits", value, sluice.MessageIDBytes)
	case by == SelectRoute && (value == "" || len(value) > MaxRouteBytes || strings.ContainsFunc(value, isControl)),
		by == SelectTag && (value == "" || len(value) > MaxTagBytes || strings.ContainsFunc(value, isControl) || strings.Contains(value, ",")):
		return s, fmt.Errorf("select mail by %s: %.64q is none", by, value)
	}
	return s, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Name names the selection among what is stopped.
func (s Selector) Name() string {
	switch s.By {
	case SelectAll:
		return SelectAll
	case SelectClass:
		return s.Value
	}
	return s.By + ":" + s.Value
}

// String says which mail it is.
func (s Selector) String() string {
	switch s.By {
	case SelectAll:
		return "all mail"
	case SelectClass:
		return s.Value + " mail"
	}
	return "mail of the " + s.By + " " + s.Value
}

// ParseSelector reads what Name wrote.
func ParseSelector(name string) (Selector, bool) {
	by, value, found := strings.Cut(name, ":")
	if !found {
		if by, value = SelectClass, name; name == SelectAll {
			by, value = SelectAll, ""
		}
	}
	s, err := NewSelector(by, value)
	return s, err == nil
}

// TakesRow reports whether a send of the ledger is meant. Of the route it is the
// one that was asked for, when the send was accepted, or that tried it last.
func (s Selector) TakesRow(r *SendRow) bool {
	switch s.By {
	case SelectAll:
		return true
	case SelectClass:
		return r.Class.String() == s.Value
	case SelectPriority:
		return r.Priority.String() == s.Value
	case SelectTag:
		return HasTag(r.Tags, s.Value)
	case SelectMessage:
		return r.Message == s.Value
	case SelectRoute:
		return r.Route == s.Value || r.askedRoute() == s.Value
	}
	return false
}

// askedRoute is the route that was asked for when the send was accepted.
func (r *SendRow) askedRoute() string {
	first, _, _ := strings.Cut(r.Life, "\n")
	var line lifeLine
	if json.Unmarshal([]byte(first), &line) != nil || line.Event != sluice.EventQueued {
		return ""
	}
	return line.Route
}

// HasTag reports whether a tag is among those of a send, which have commas
// between them.
func HasTag(tags, tag string) bool {
	for len(tags) >= len(tag) {
		first, rest, more := strings.Cut(tags, ",")
		if first == tag {
			return true
		}
		if !more {
			return false
		}
		tags = rest
	}
	return false
}
