package store

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice"
)

// Bounds of the registry of subscription groups. A profile holds as many groups at most
// (profile.MaxGroups).
const (
	MaxGroups                = 200
	MaxGroupIDRunes          = 255
	MaxGroupNameBytes        = 200
	MaxGroupDescriptionBytes = 1000
	MaxGroupOrder            = 10_000

	// DefaultGroupOrder is the order of a group that names none.
	DefaultGroupOrder = 1000
)

// Group is a subscription group as people see it. What states users have in it is part
// of their profiles, and does not need this.
type Group struct {
	ID            string
	Name          string // shown to people
	Description   string // shown below the name; may be empty
	Public        bool   // people may choose it on the page of their mail
	Order         int    // the smaller comes first; of one order the smaller id
	CreatedMillis int64
	UpdatedMillis int64
}

// Check returns an *sluice.Error with CodeInvalid that says what is wrong with a group,
// or nil.
func (g *Group) Check() error {
	wrong := func(format string, args ...any) error {
		return sluice.Refuse(sluice.CodeInvalid, format, args...)
	}
	for _, text := range [...]string{g.ID, g.Name, g.Description} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return wrong("id, name and description are UTF-8 without control characters and line breaks")
		}
	}
	switch {
	case g.ID == "" || utf8.RuneCountInString(g.ID) > MaxGroupIDRunes:
		return wrong("id has %d characters, want 1 to %d", utf8.RuneCountInString(g.ID), MaxGroupIDRunes)
	case strings.TrimSpace(g.Name) == "" || len(g.Name) > MaxGroupNameBytes:
		return wrong("name has %d bytes, want 1 to %d, and not spaces alone", len(g.Name), MaxGroupNameBytes)
	case len(g.Description) > MaxGroupDescriptionBytes:
		return wrong("description has %d bytes, at most %d are allowed", len(g.Description), MaxGroupDescriptionBytes)
	case g.Order < 1 || g.Order > MaxGroupOrder:
		return wrong("order is %d, want 1 to %d", g.Order, MaxGroupOrder)
	}
	return nil
}

// GroupStore keeps the registry of subscription groups. The stores of package sqlstore
// are ones.
type GroupStore interface {
	// Groups returns all, by their order, then by id.
	Groups(ctx context.Context) ([]Group, error)

	// PutGroup makes a group, or changes all of one but when it was made. An *Error with
	// CodeInvalid says what is wrong with it, or that there are MaxGroups.
	PutGroup(ctx context.Context, g Group) error

	// DropGroup removes one, or returns an *Error with CodeNotFound. States in profiles stay.
	DropGroup(ctx context.Context, id string) error
}
