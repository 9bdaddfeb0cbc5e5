package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
)

// Profile is one user. The zero value is a user of whom nothing is known.
//
// Its text is one JSON object, members that are empty left out:
//
//	external_id  the customer's name for the user
//	aliases      [[label, name], ...]
//	former       names of users who were merged into this one
//	merged       those aliases that were names of such users alone
//	created      when the user was first seen, ms since the epoch
//	active       the last day (since the epoch, UTC) on which the user did something
//	fields       the standard attributes: first_name, email, ...
//	custom       the customer's own
//	events       {name: [count, first ms, last ms], ...}
//	purchases    {product: [count, first ms, last ms], ...}
//	revenue      {currency: millionths, ...}
//	groups       {subscription group: [state, since ms], ...}
//	email_since  when email_subscribe was said, ms since the epoch
//	made         [[name, second], ...]: changes by journeys that are made once
//
// Members of other names are of a newer program. They are kept as they are,
// behind those above, so that two versions can share users. So what a version
// adds to users is a new member here, never a new form of an old one.
//
// The invariants: what is a list here is sorted by name and has each name
// once; values are canonical; Parse(p.Append(nil)) is p.
type Profile struct {
	ExternalID    string
	Aliases       []Alias
	Former        []string
	Merged        []Alias
	CreatedMillis int64
	ActiveDay     int64
	Fields        Values
	Custom        Values
	Events        []Tally
	Purchases     []Tally
	Revenue       []Money
	Groups        []Group

	// EmailSinceMillis is when the attribute email_subscribe was said, or removed. 0: it
	// never was, or by a version that did not keep the time.
	EmailSinceMillis int64

	// Made are the last changes that are made once, the oldest first: see Makes.
	Made []Made

	Newer Values // members that this program does not know
}

// Alias is another name of a user, one of many under its label.
type Alias struct{ Label, Name string }

// Value is an attribute: its name and its JSON text, canonical.
type Value struct{ Name, Raw string }

// Values are attributes, sorted by name.
type Values []Value

// Tally is how often something happened to a user, and when for the first and
// the last time.
type Tally struct {
	Name                    string
	Count                   int64
	FirstMillis, LastMillis int64
}

// Money is what a user has spent in a currency, in millionths of it.
type Money struct {
	Currency string
	Micros   int64
}

// Group is a user's state in a subscription group.
type Group struct {
	ID          string
	Subscribed  bool
	SinceMillis int64 // since when, or when it was chosen again
}

// Get returns an attribute's JSON text, or "" if there is none.
func (v Values) Get(name string) string {
	if i, ok := v.find(name); ok {
		return v[i].Raw
	}
	return ""
}

// fewValues is what a new user has room for at once.
const fewValues = 8

// Set sets an attribute; "" or null removes it. It reports whether that
// changed anything.
func (v *Values) Set(name, raw string) bool {
	i, ok := v.find(name)
	remove := raw == "" || raw == "null"
	switch {
	case remove && !ok, ok && (*v)[i].Raw == raw:
		return false
	case remove:
		*v = slices.Delete(*v, i, i+1)
	case ok:
		(*v)[i].Raw = raw
	case *v == nil:
		*v = append(make(Values, 0, fewValues), Value{name, raw})
	default:
		*v = slices.Insert(*v, i, Value{name, raw})
	}
	return true
}

func (v Values) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v, name, func(x Value, name string) int { return strings.Compare(x.Name, name) })
}

// Parse reads a profile's text. Its texts share memory with it.
func Parse(text string) (*Profile, error) {
	p := &Profile{}
	m := jsonscan.Read(text)
	for m.Next() {
		if err := p.parseMember(m.Key, m.Value); err != nil {
			return nil, fmt.Errorf("read profile: %s: %w", m.Key, err)
		}
	}
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return p, nil
}

func (p *Profile) parseMember(name string, v jsonscan.Value) (err error) {
	switch name {
	case "external_id":
		p.ExternalID = v.Text()
	case "aliases":
		p.Aliases, err = parseAliases(v.Raw)
	case "merged":
		p.Merged, err = parseAliases(v.Raw)
	case "former":
		for _, e := range elements(v.Raw) {
			p.Former = append(p.Former, e.Text())
		}
	case "active":
		p.ActiveDay, err = strconv.ParseInt(v.Raw, 10, 64)
	case "created":
		p.CreatedMillis, err = strconv.ParseInt(v.Raw, 10, 64)
	case "fields":
		p.Fields, err = parseValues(v.Raw)
	case "custom":
		p.Custom, err = parseValues(v.Raw)
	case "events":
		p.Events, err = parseTallies(v.Raw)
	case "purchases":
		p.Purchases, err = parseTallies(v.Raw)
	case "revenue":
		m := jsonscan.Read(v.Raw)
		for m.Next() && err == nil {
			money := Money{Currency: m.Key}
			money.Micros, err = strconv.ParseInt(m.Value.Raw, 10, 64)
			p.Revenue = append(p.Revenue, money)
		}
	case "groups":
		p.Groups, err = parseGroups(v.Raw)
	case "email_since":
		p.EmailSinceMillis, err = strconv.ParseInt(v.Raw, 10, 64)
	case "made":
		p.Made, err = parseMade(v.Raw)
	default:
		i, _ := p.Newer.find(name)
		p.Newer = slices.Insert(p.Newer, i, Value{name, v.Raw})
	}
	return err
}

func parseAliases(array string) ([]Alias, error) {
	var all []Alias
	e := jsonscan.ReadArray(array)
	for e.Next() {
		pair := elements(e.Value.Raw)
		if len(pair) != 2 {
			return nil, fmt.Errorf("want pairs, got %.40s", e.Value.Raw)
		}
		all = append(all, Alias{pair[0].Text(), pair[1].Text()})
	}
	return all, e.Err()
}

// mostRoom bounds for how many members of an object room is made before they are read.
const mostRoom = 64

// parseValues reads what was written sorted and canonical.
func parseValues(object string) (Values, error) {
	all := make(Values, 0, min(strings.Count(object, `":`), mostRoom))
	m := jsonscan.Read(object)
	for m.Next() {
		all = append(all, Value{m.Key, m.Value.Raw})
	}
	return all, m.Err()
}

func parseTallies(object string) ([]Tally, error) {
	all := make([]Tally, 0, min(strings.Count(object, "["), mostRoom))
	m := jsonscan.Read(object)
	for m.Next() {
		t := Tally{Name: m.Key}
		n := 0
		e := jsonscan.ReadArray(m.Value.Raw)
		for e.Next() && n < 3 {
			i, err := strconv.ParseInt(e.Value.Raw, 10, 64)
			if err != nil {
				return nil, err
			}
			*[]*int64{&t.Count, &t.FirstMillis, &t.LastMillis}[n] = i
			n++
		}
		if n < 3 {
			return nil, fmt.Errorf("want three numbers, got %.60s", m.Value.Raw)
		}
		all = append(all, t)
	}
	return all, m.Err()
}

func parseGroups(object string) ([]Group, error) {
	all := make([]Group, 0, min(strings.Count(object, "["), mostRoom))
	m := jsonscan.Read(object)
	for m.Next() {
		var pair [2]jsonscan.Value
		n, e := 0, jsonscan.ReadArray(m.Value.Raw)
		for ; e.Next(); n++ {
			if n < len(pair) {
				pair[n] = e.Value
			}
		}
		if n != len(pair) {
			return nil, fmt.Errorf("want pairs, got %.40s", m.Value.Raw)
		}
		since, err := strconv.ParseInt(pair[1].Raw, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Group{m.Key, pair[0].Text() == subscribed, since})
	}
	return all, m.Err()
}

// Clone returns a copy that can be changed by itself.
func (p *Profile) Clone() *Profile {
	c := *p
	c.Aliases, c.Former, c.Merged = slices.Clone(p.Aliases), slices.Clone(p.Former), slices.Clone(p.Merged)
	c.Fields, c.Custom = slices.Clone(p.Fields), slices.Clone(p.Custom)
	c.Events, c.Purchases = slices.Clone(p.Events), slices.Clone(p.Purchases)
	c.Revenue, c.Groups = slices.Clone(p.Revenue), slices.Clone(p.Groups)
	c.Made, c.Newer = slices.Clone(p.Made), slices.Clone(p.Newer)
	return &c
}

// Append appends the profile's text.
func (p *Profile) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	if p.ExternalID != "" {
		w.member("external_id")
		w.dst = jsonscan.AppendQuoted(w.dst, p.ExternalID)
	}
	w.aliases("aliases", p.Aliases)
	if len(p.Former) > 0 {
		w.member("former")
		for i, name := range p.Former {
			w.dst = jsonscan.AppendQuoted(append(w.dst, opening(i, '[')), name)
		}
		w.dst = append(w.dst, ']')
	}
	w.aliases("merged", p.Merged)
	w.number("created", p.CreatedMillis)
	w.number("active", p.ActiveDay)
	w.values("fields", p.Fields)
	w.values("custom", p.Custom)
	w.tallies("events", p.Events)
	w.tallies("purchases", p.Purchases)
	if len(p.Revenue) > 0 {
		w.member("revenue")
		for i, m := range p.Revenue {
			w.dst = append(jsonscan.AppendQuoted(append(w.dst, opening(i, '{')), m.Currency), ':')
			w.dst = strconv.AppendInt(w.dst, m.Micros, 10)
		}
		w.dst = append(w.dst, '}')
	}
	if len(p.Groups) > 0 {
		w.member("groups")
		for i, g := range p.Groups {
			w.dst = append(jsonscan.AppendQuoted(append(w.dst, opening(i, '{')), g.ID), ':', '[')
			w.dst = append(jsonscan.AppendQuoted(w.dst, stateWord(g.Subscribed)), ',')
			w.dst = append(strconv.AppendInt(w.dst, g.SinceMillis, 10), ']')
		}
		w.dst = append(w.dst, '}')
	}
	w.number("email_since", p.EmailSinceMillis)
	w.made(p.Made)
	for _, v := range p.Newer {
		w.name(v.Name)
		w.dst = append(w.dst, v.Raw...)
	}
	return append(w.dst, '}')
}

// writer appends the members of one object.
type writer struct {
	dst []byte
	any bool
}

func (w *writer) member(name string) {
	if w.any {
		w.dst = append(w.dst, ',')
	}
	w.any = true
	w.dst = append(append(append(w.dst, '"'), name...), '"', ':')
}

// name is member for a name that is not ours.
func (w *writer) name(name string) {
	if w.any {
		w.dst = append(w.dst, ',')
	}
	w.any = true
	w.dst = append(jsonscan.AppendQuoted(w.dst, name), ':')
}

func (w *writer) number(name string, n int64) {
	if n != 0 {
		w.member(name)
		w.dst = strconv.AppendInt(w.dst, n, 10)
	}
}

func (w *writer) aliases(name string, all []Alias) {
	if len(all) == 0 {
		return
	}
	w.member(name)
	for i, a := range all {
		w.dst = append(w.dst, opening(i, '['), '[')
		w.dst = append(jsonscan.AppendQuoted(w.dst, a.Label), ',')
		w.dst = append(jsonscan.AppendQuoted(w.dst, a.Name), ']')
	}
	w.dst = append(w.dst, ']')
}

func (w *writer) values(name string, values Values) {
	if len(values) > 0 {
		w.member(name)
		w.dst = appendValues(w.dst, values)
	}
}

func (w *writer) tallies(name string, all []Tally) {
	if len(all) == 0 {
		return
	}
	w.member(name)
	for i, t := range all {
		w.dst = append(jsonscan.AppendQuoted(append(w.dst, opening(i, '{')), t.Name), ':')
		for j, n := range [...]int64{t.Count, t.FirstMillis, t.LastMillis} {
			w.dst = strconv.AppendInt(append(w.dst, opening(j, '[')), n, 10)
		}
		w.dst = append(w.dst, ']')
	}
	w.dst = append(w.dst, '}')
}

// opening is what stands before the i-th of several: the bracket, then commas.
func opening(i int, bracket byte) byte {
	if i == 0 {
		return bracket
	}
	return ','
}
