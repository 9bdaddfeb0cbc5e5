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

	// Class, if not 0, means the mail of one class alone: of a route, with a tag, of a
	// message.
	Class Class
}

// SelectorWords are by what mail can be stopped: a sender knows of each mail at
// once whether it is meant.
var SelectorWords = []string{SelectAll, SelectClass, SelectPriority, SelectRoute, SelectTag, SelectMessage}

// PurgeWords are by what mail can be purged.
var PurgeWords = append(slices.Clone(SelectorWords), SelectDomain, SelectSender)

// The words.
const (
	SelectAll      = "all"
	SelectClass    = "class"
	SelectPriority = "priority"
	SelectRoute    = "route"
	SelectTag      = "tag"
	SelectMessage  = "message"
	SelectDomain   = "domain" // of the recipient
	SelectSender   = "sender" // its address, or its domain
)

// maxSelectorBytes bounds a domain, or an address: RFC 5321, 4.5.3.1.3.
const maxSelectorBytes = 254

// What may be stopped at once. All mail, a class and a priority are never refused: these
// are the brake, and their names are six.
const (
	MaxStops      = 24  // tags and messages: each has a sublane of its own, where there is room
	MaxRouteStops = 192 // routes: 64, and the mail of one class or the other of each
)

// NewSelector checks a selection by one of PurgeWords.
func NewSelector(by, value string) (Selector, error) {
	s := Selector{By: by, Value: value}
	_, class := ParseClass(value)
	_, priority := ParsePriority(value)
	switch {
	case !slices.Contains(PurgeWords, by):
		return s, fmt.Errorf("select mail by %.32q: want one of %s", by, strings.Join(PurgeWords, ", "))
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
	case by == SelectDomain || by == SelectSender:
		local, host, address := strings.Cut(value, "@")
		if !address {
			host = value
		}
		if s.Value = strings.ToLower(value); address && (by == SelectDomain || local == "") || host == "" || len(value) > maxSelectorBytes ||
			strings.ContainsAny(value, "*, ") || strings.ContainsFunc(value, isControl) {
			return s, fmt.Errorf("select mail by %s: %.64q is none; want such as example.com, of other letters the form with xn--", by, value)
		}
	}
	return s, nil
}

// Of returns the selection of what is of a class as well. word is empty for any.
func (s Selector) Of(word string) (Selector, error) {
	if word == "" {
		return s, nil
	}
	class, ok := ParseClass(word)
	switch {
	case !ok:
		return s, fmt.Errorf("select mail of the class %.32q: want transactional or marketing", word)
	case s.By != SelectRoute && s.By != SelectTag && s.By != SelectMessage:
		return s, fmt.Errorf("select mail by %s and by class: a class goes with route, tag and message", s.By)
	}
	s.Class = class
	return s, nil
}

// takesClass reports whether mail of a class may be meant.
func (s Selector) takesClass(c Class) bool { return s.Class == 0 || s.Class == c }

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Name names the selection among what is stopped.
func (s Selector) Name() string {
	switch s.By {
	case SelectAll:
		return SelectAll
	case SelectClass:
		return s.Value
	}
	if s.Class != 0 {
		return s.Class.String() + "/" + s.By + ":" + s.Value
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
	if s.Class != 0 {
		return s.Class.String() + " mail of the " + s.By + " " + s.Value
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
	class := ""
	if before, after, qualified := strings.Cut(by, "/"); qualified {
		class, by = before, after
		if class == "" {
			return Selector{}, false
		}
	}
	s, err := NewSelector(by, value)
	if err == nil {
		s, err = s.Of(class)
	}
	return s, err == nil && s.Stops()
}

// Stops reports whether mail can be stopped by the selection.
func (s Selector) Stops() bool { return slices.Contains(SelectorWords, s.By) }

// StopBound returns the words of selections that count together with this one among
// what is stopped, and how many of them may be. No words: it is never refused.
func (s Selector) StopBound() (most int, beside []string) {
	switch s.By {
	case SelectTag, SelectMessage:
		return MaxStops, []string{SelectTag, SelectMessage}
	case SelectRoute:
		return MaxRouteStops, []string{SelectRoute}
	}
	return 0, nil
}

// TakesRow reports whether a send of the ledger is meant. Of the route it is the
// one that was asked for, when the send was accepted, or that tried it last.
func (s Selector) TakesRow(r *SendRow) bool {
	if !s.takesClass(r.Class) {
		return false
	}
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
		return r.Route == s.Value || r.AskedRoute() == s.Value
	case SelectDomain:
		return atDomain(r.To, s.Value)
	case SelectSender:
		return strings.EqualFold(r.From, s.Value) || atDomain(r.From, s.Value)
	}
	return false
}

// atDomain reports whether an address is one of a domain.
func atDomain(address, domain string) bool {
	at := strings.LastIndexByte(address, '@')
	return at >= 0 && strings.EqualFold(address[at+1:], domain)
}

// AskedRoute is the route that was asked for when the send was accepted; empty:
// none was.
func (r *SendRow) AskedRoute() string {
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
