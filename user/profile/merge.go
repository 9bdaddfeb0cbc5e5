package profile

import (
	"cmp"
	"slices"
	"strings"
)

// Merge takes in another profile that turned out to be the same person. What
// only the other one has is filled in, and what both have stays. Counts and
// money are added up; the first is the earliest and the last the latest. The
// other's names become names of this user. What people say of mail and of groups goes
// by its time: see EmailStateFrom and GroupsFrom. Lost is what both had, the other one's
// external id, which the caller keeps as a key, and what is beyond bounds: events and
// products beyond MaxTallies, groups beyond MaxGroups, notes of steps beyond madeAtMost.
//
// hand and absorb in user/users/apply.go call it, and move the keys.
//
// Two merges within these bounds give the same profile in any order, as long as the
// others have no attribute and no group in common. For those that they have in common,
// the first one wins, but for an opt-out. Changes of this user count as had, whenever
// they came.
func (p *Profile) Merge(other *Profile) {
	if p.ExternalID == "" {
		p.ExternalID = other.ExternalID
	}
	for _, a := range other.Aliases {
		p.addAlias(a) // beyond MaxAliases too: it is a key of this user, which an erasure must find
	}
	for _, name := range other.Former {
		p.AddFormer(name)
	}
	for _, a := range other.Merged {
		insertAlias(&p.Merged, a)
	}
	p.ActiveDay = max(p.ActiveDay, other.ActiveDay)
	switch {
	case p.CreatedMillis == 0:
		p.CreatedMillis = other.CreatedMillis
	case other.CreatedMillis != 0:
		p.CreatedMillis = min(p.CreatedMillis, other.CreatedMillis)
	}
	p.EmailStateFrom(other)
	fill(&p.Fields, other.Fields)
	fill(&p.Custom, other.Custom)
	p.madeBy(other)
	fill(&p.Newer, other.Newer) // what a newer program would do with both, nobody here knows
	for _, t := range other.Events {
		p.Events = count(p.Events, t)
	}
	for _, t := range other.Purchases {
		p.Purchases = count(p.Purchases, t)
	}
	for _, m := range other.Revenue {
		p.Revenue = earn(p.Revenue, m)
	}
	p.GroupsFrom(other)
}

func fill(values *Values, other Values) {
	for _, v := range other {
		if values.Get(v.Name) == "" {
			values.Set(v.Name, v.Raw)
		}
	}
}

// AddFormer notes the name of a user who was merged into this one. None is left
// out, since an erasure finds the user's events by it: the caller keeps to
// MaxFormer.
func (p *Profile) AddFormer(name string) {
	if i, ok := slices.BinarySearch(p.Former, name); !ok {
		p.Former = slices.Insert(p.Former, i, name)
	}
}

// AddAlias adds a name, unless it is there or there are MaxAliases, and reports
// whether it was added.
func (p *Profile) AddAlias(a Alias) bool {
	return len(p.Aliases) < MaxAliases && p.addAlias(a)
}

func (p *Profile) addAlias(a Alias) bool { return insertAlias(&p.Aliases, a) }

// MergeAliases notes of all aliases that they name a user who is merged into another
// one. They find that one, and do not erase it.
func (p *Profile) MergeAliases() { p.Merged = slices.Clone(p.Aliases) }

// insertAlias keeps a list sorted, each alias once, and reports whether it was added.
func insertAlias(all *[]Alias, a Alias) bool {
	i, ok := slices.BinarySearchFunc(*all, a, func(x, a Alias) int {
		return cmp.Or(strings.Compare(x.Label, a.Label), strings.Compare(x.Name, a.Name))
	})
	if !ok {
		*all = slices.Insert(*all, i, a)
	}
	return !ok
}
