package users

import (
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/user"
	"sluice/user/profile"
)

// What updates are to journeys.
//
// The idea. An update is a fact where it is applied: in the partition of its user, once,
// under its own place. Events and purchases are facts by their names. Of changes, what a
// fact can be about is copied before the update and compared after it, so that it does
// not matter which operation has changed it, nor how: a set, an increment, a merge.
// Where no name is registered, an update costs one comparison more.
//
// The invariants. The facts of an update do not depend on what else is in the
// transaction, since on another day it will be cut elsewhere. So an attribute that goes
// from A to B and back is two facts, also in one transaction. A repeat, an update of
// nobody, one that is forwarded, and one that becomes a dead letter are none.
//
// What was tried and dropped. One fact of each user that is written, with what the whole
// transaction has changed: a journey that begins at B would never see it.
type facts struct {
	names *journey.Names // nil: no version of a journey is in use, and nothing is a fact
	all   []journey.Fact
	was   snapshot
	body  []byte

	// at has the facts of changes by their keys. It is made when an inherited state is
	// the first to be added to what an update has changed.
	at map[factKey]int
}

// factKey is what is one fact.
type factKey struct {
	place  sluice.Place
	number int64
	kind   journey.FactKind
}

// snapshot is what of a profile changes can be facts.
type snapshot struct {
	fields, custom profile.Values
	groups         []profile.Group
	externalID     string
}

func newFacts(r *journey.Registered) facts {
	if !r.Any() {
		return facts{}
	}
	return facts{names: r.Names()}
}

// changes reports whether a change of anything is a fact.
func (f *facts) changes() bool {
	return f.names != nil && len(f.names.Attributes)+len(f.names.Groups) > 0
}

// add adds a fact. One without a name in the table's bounds is none: only a product can
// have such a one, where all are registered.
func (f *facts) add(up *Update, id user.ID, kind journey.FactKind, name, body string) {
	if name == "" || profile.NameFits(name) {
		f.all = append(f.all, journey.Fact{Place: up.Place, Number: id.Number, Kind: kind, Name: name, TimeMillis: up.TimeMillis, Body: body})
	}
}

// remember keeps what a profile is before an update.
func (f *facts) remember(p *profile.Profile) {
	if !f.changes() {
		return
	}
	f.was.fields = append(f.was.fields[:0], p.Fields...)
	f.was.custom = append(f.was.custom[:0], p.Custom...)
	f.was.groups = append(f.was.groups[:0], p.Groups...)
	f.was.externalID = p.ExternalID
}

// begin is called before an update is applied to a user, and end after it.
func (f *facts) begin(up *Update, x *person) {
	if f.names == nil {
		return
	}
	switch {
	case x.last == up: // it has made the user, of a name that may be an address
		f.remember(&profile.Profile{})
	case mayChange(up.Op):
		f.remember(x.profile)
	}
}

func (f *facts) end(up *Update, made bool, id user.ID, x *person) {
	if f.names == nil {
		return
	}
	switch {
	case (up.Op == user.OpSeen || up.Op == user.OpEvent) && f.names.HasEvent(up.Name):
		f.add(up, id, journey.FactEvent, up.Name, up.Body)
	case (up.Op == user.OpBought || up.Op == user.OpPurchase) && f.names.HasPurchase(up.Name):
		f.add(up, id, journey.FactPurchase, up.Name, up.Body)
	}
	if (made || mayChange(up.Op)) && x.row.MergedInto.IsZero() {
		f.changed(up, id, x)
	}
}

// mayChange reports whether an operation may change attributes, groups or the external id of
// its user. Merges look for themselves.
func mayChange(op user.Op) bool {
	return op == user.OpAttributes || op == user.OpGroup || op == user.OpSubscribe || op == user.OpIdentify
}

// changed adds what is registered and other than remember has seen it.
func (f *facts) changed(up *Update, id user.ID, x *person) {
	if !f.changes() {
		return
	}
	if body := f.attributes(up, x); body != "" {
		f.add(up, id, journey.FactAttributes, "", body)
	}
	if body := f.groups(x.profile.Groups); body != "" {
		f.add(up, id, journey.FactGroups, "", body)
	}
}

// merged adds that a user was merged into another, tookIn what that one has by it, and
// deleted that a user was erased. Journeys need these of everybody who may be inside.
func (f *facts) merged(up *Update, id, into user.ID) {
	if f.names != nil {
		f.add(up, id, journey.FactMerged, into.String(), "")
	}
}

func (f *facts) tookIn(up *Update, id user.ID, x *person, other string) {
	if f.names != nil {
		f.add(up, id, journey.FactTookIn, other, "")
		f.changed(up, id, x)
	}
}

func (f *facts) deleted(up *Update, id user.ID) {
	if f.names != nil {
		f.add(up, id, journey.FactDeleted, "", "")
	}
}

// mailed adds what happened to a mail of a user.
func (f *facts) mailed(up *Update, id user.ID) {
	if f.names == nil {
		return
	}
	if m := journey.ReadMailed(up.Body); f.names.HasMail(journey.MailEvent(up.Name), &m) {
		f.add(up, id, journey.FactMail, up.Name, up.Body)
	}
}

// ofJourney adds what is about one journey alone: an entry by the API, or a place that a
// former user had. It needs no name.
func (f *facts) ofJourney(up *Update, id user.ID) {
	kind := journey.FactEntered
	if up.Op == user.OpPlace {
		kind = journey.FactPlace
	}
	if f.names != nil {
		f.add(up, id, kind, up.Name, up.Body)
	}
}

// inherited is changed for what a user inherits with an address, once all updates are
// applied. It is part of what the update has changed that gave the user the address.
func (f *facts) inherited(id user.ID, x *person) {
	if !f.changes() {
		return
	}
	up := x.gained
	if up == nil {
		up = x.last
	}
	from := len(f.all)
	f.changed(up, id, x)
	if len(f.all) == from {
		return
	}
	if f.at == nil {
		f.at = make(map[factKey]int)
		f.index(0, from)
	}
	more := f.all[from:]
	f.all = f.all[:from]
	for _, n := range more {
		key := factKey{n.Place, n.Number, n.Kind}
		if i, ok := f.at[key]; ok {
			first := &f.all[i].Body
			*first = strings.TrimSuffix(*first, "}") + "," + strings.TrimPrefix(n.Body, "{")
			continue
		}
		f.all = append(f.all, n)
		f.index(len(f.all)-1, len(f.all))
	}
}

// index notes where the facts of changes are.
func (f *facts) index(from, to int) {
	for i := from; i < to; i++ {
		if n := &f.all[i]; n.Kind == journey.FactAttributes || n.Kind == journey.FactGroups {
			f.at[factKey{n.Place, n.Number, n.Kind}] = i
		}
	}
}

// attributes is the body of a fact, or "". It also notes which update gave the user an
// address.
func (f *facts) attributes(up *Update, x *person) string {
	f.body = f.body[:0]
	differences(f.was.fields, x.profile.Fields, func(name, was, is string) {
		if name == "email" || name == "phone" {
			x.gained = up
		}
		if f.names.HasAttribute(name) {
			f.change(name, was, is)
		}
	})
	differences(f.was.custom, x.profile.Custom, func(name, was, is string) {
		if f.names.HasAttribute(name) {
			f.change(name, was, is)
		}
	})
	if was, is := f.was.externalID, x.profile.ExternalID; was != is && f.names.HasAttribute(externalID) {
		f.change(externalID, textOrNothing(was), textOrNothing(is))
	}
	return f.closed()
}

// externalID is how rules call it: it is compared as an attribute is.
const externalID = "external_id"

func textOrNothing(text string) string {
	if text == "" {
		return ""
	}
	return profile.Quoted(text)
}

// differences calls fn for each value that is in one of two sorted lists, or in both and
// not the same.
func differences(was, is profile.Values, fn func(name, was, is string)) {
	for len(was)+len(is) > 0 {
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Name < is[0].Name:
			fn(was[0].Name, was[0].Raw, "")
			was = was[1:]
		case len(was) == 0 || is[0].Name < was[0].Name:
			fn(is[0].Name, "", is[0].Raw)
			is = is[1:]
		default:
			if was[0].Raw != is[0].Raw {
				fn(is[0].Name, was[0].Raw, is[0].Raw)
			}
			was, is = was[1:], is[1:]
		}
	}
}

// groups is the body of a fact, or "". Who leaves a group beyond profile.MaxGroups loses
// the state in another one, which is no fact.
func (f *facts) groups(is []profile.Group) string {
	f.body = f.body[:0]
	was := f.was.groups
	for i := range is {
		g, before := &is[i], ""
		for len(was) > 0 && was[0].ID < g.ID {
			was = was[1:]
		}
		if len(was) > 0 && was[0].ID == g.ID {
			before, was = was[0].State(), was[1:]
		}
		if state := g.State(); state != before && f.names.HasGroup(g.ID) {
			f.change(g.ID, textOrNothing(before), profile.Quoted(state))
		}
	}
	return f.closed()
}

// change writes a member of a body.
func (f *facts) change(name, was, is string) {
	separator := byte(',')
	if len(f.body) == 0 {
		separator = '{'
	}
	f.body = append(append(f.body, separator), profile.Quoted(name)...)
	for i, raw := range [...]string{was, is} {
		if raw == "" {
			raw = "null"
		}
		f.body = append(append(f.body, [...]string{":[", ","}[i]...), raw...)
	}
	f.body = append(f.body, ']')
}

// closed returns the body, "" if nothing was written.
func (f *facts) closed() string {
	if len(f.body) == 0 {
		return ""
	}
	return string(append(f.body, '}'))
}
