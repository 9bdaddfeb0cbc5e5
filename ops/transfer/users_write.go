package transfer

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user/profile"
)

// Bounds of an export of users.
const (
	maxUserColumns = 10_000 // of a CSV

	// A line with more members, or that is longer, ends behind its member: no
	// import takes one of more than 1,000, or of more than sluice.MaxElementBytes.
	maxLineMembers = 500
	maxLineBytes   = sluice.MaxElementBytes / 2
)

// ExportUsers writes all users but those who were merged into another, in the
// order of their ids, as lines that an import of users reads, and returns how many.
// A user with a very large profile has several lines, each with the user's name. The
// columns of a CSV are all attributes that any user has, so it reads the table twice.
// It needs the memory of one user, and of the columns.
func ExportUsers(ctx context.Context, snapshot store.Snapshot, format Format, to io.Writer) (rows int64, err error) {
	if format != CSV {
		var buf []byte
		return eachUser(ctx, snapshot, func(p *profile.Profile) error {
			buf = append(appendUser(buf[:0], p), '\n')
			_, err := to.Write(buf)
			return err
		})
	}
	w := &userCSV{to: csv.NewWriter(to), columns: make(map[string]int)}
	if _, err := eachUser(ctx, snapshot, w.note); err != nil {
		return 0, err
	}
	if err := w.header(); err != nil {
		return 0, err
	}
	rows, err = eachUser(ctx, snapshot, w.write)
	w.to.Flush()
	return rows, errors.Join(err, w.to.Error())
}

// eachUser hands the profiles of all users to fn, and counts them.
func eachUser(ctx context.Context, snapshot store.Snapshot, fn func(*profile.Profile) error) (n int64, err error) {
	at := make(map[string]int)
	for _, t := range snapshot.Tables() {
		for i, c := range t.Columns {
			if t.Name == "users" {
				at[c.Name] = i
			}
		}
	}
	err = snapshot.Rows(ctx, "users", func(cells []store.Cell) error {
		if cells[at["to_number"]].Text != "0" {
			return nil
		}
		p, err := profile.Parse(cells[at["profile"]].Text)
		if err != nil {
			return fmt.Errorf("user %s of partition %s: %w", cells[at["number"]].Text, cells[at["part"]].Text, err)
		}
		n++
		return fn(p)
	})
	return n, err
}

// userValues are the members of a user's line, in their order: the name, the
// standard attributes, the groups, and the customer's own.
func userValues(p *profile.Profile) []profile.Value {
	all := make([]profile.Value, 0, 2+len(p.Fields)+len(p.Custom))
	switch {
	case p.ExternalID != "":
		all = append(all, profile.Value{Name: "external_id", Raw: profile.Quoted(p.ExternalID)})
	case len(p.Aliases) > 0:
		a := p.Aliases[0]
		all = append(all, profile.Value{Name: "user_alias", Raw: `{"alias_name":` + profile.Quoted(a.Name) + `,"alias_label":` + profile.Quoted(a.Label) + "}"})
	}
	all = append(all, p.Fields...)
	if len(p.Groups) > 0 {
		b := []byte{'['}
		for i, g := range p.Groups {
			if i > 0 {
				b = append(b, ',')
			}
			state := "unsubscribed"
			if g.Subscribed {
				state = "subscribed"
			}
			b = append(appendJSONText(append(b, `{"subscription_group_id":`...), g.ID), `,"subscription_state":"`+state+`"}`...)
		}
		all = append(all, profile.Value{Name: "subscription_groups", Raw: string(append(b, ']'))})
	}
	return append(all, p.Custom...)
}

// nameIn is the member of a user's values that names the user, as an import
// reads it; if none does, it has no name.
func nameIn(all []profile.Value) (who profile.Value) {
	for _, name := range []string{"external_id", "user_alias", "email", "phone"} {
		if i := slices.IndexFunc(all, func(v profile.Value) bool { return v.Name == name }); i >= 0 {
			return all[i]
		}
	}
	return who
}

// appendUser appends a user as JSON objects: nearly always as one.
func appendUser(b []byte, p *profile.Profile) []byte {
	appendMember := func(v profile.Value) {
		b = append(append(appendJSONText(b, v.Name), ':'), v.Raw...)
	}
	all := userValues(p)
	who := nameIn(all)
	b = append(b, '{')
	start, members := len(b), 0
	for _, v := range all {
		if members >= maxLineMembers || len(b)-start > maxLineBytes {
			b = append(b, "}\n{"...)
			start, members = len(b), 0
			if who.Name != "" && v.Name != who.Name {
				appendMember(who)
				members++
			}
		}
		if members++; len(b) > start {
			b = append(b, ',')
		}
		appendMember(v)
	}
	return append(b, '}')
}

// userCSV writes users as a CSV.
type userCSV struct {
	to      *csv.Writer
	columns map[string]int // by name, their places
	record  []string
}

// note takes up the columns of a user.
func (w *userCSV) note(p *profile.Profile) error {
	for _, v := range userValues(p) {
		w.columns[v.Name] = 0
	}
	if len(w.columns) > maxUserColumns {
		return fmt.Errorf("users have more than %d attributes in all: too many columns for a CSV, take --format ndjson", maxUserColumns)
	}
	return nil
}

// header writes the first record: external_id first, then the standard
// attributes, then the customer's own.
func (w *userCSV) header() error {
	w.columns["external_id"] = 0
	class := func(name string) int {
		switch {
		case name == "external_id":
			return 0
		case name == "user_alias":
			return 1
		case profile.IsStandard(name):
			return 2
		}
		return 3
	}
	names := slices.SortedFunc(maps.Keys(w.columns), func(a, b string) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(a, b))
	})
	for i, name := range names {
		w.columns[name] = i
	}
	w.record = make([]string, len(names))
	return w.to.Write(names)
}

func (w *userCSV) write(p *profile.Profile) error {
	clear(w.record)
	for _, v := range userValues(p) {
		cell := v.Raw
		if cell[0] == '"' {
			text, err := jsonscan.Scan(cell)
			if err != nil {
				return fmt.Errorf("attribute %.60q: %w", v.Name, err)
			}
			cell = text.Text()
		}
		w.record[w.columns[v.Name]] = cell
	}
	return w.to.Write(w.record)
}
