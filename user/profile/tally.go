package profile

import (
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
)

// CountEvent notes that something happened. Beyond MaxTallies names it is not
// counted by its name any more.
func (p *Profile) CountEvent(name string, millis int64) {
	p.Events = count(p.Events, Tally{name, 1, millis, millis})
}

// CountPurchase notes that so many of a product were bought, each at a price
// in millionths of the currency.
func (p *Profile) CountPurchase(product, currency string, priceMicros, quantity, millis int64) {
	p.Purchases = count(p.Purchases, Tally{product, quantity, millis, millis})
	p.Revenue = earn(p.Revenue, Money{currency, multiply(priceMicros, quantity)})
}

// count adds a tally to a sorted list, in any order. Counts are added up; the
// first is the earliest and the last the latest.
func count(all []Tally, t Tally) []Tally {
	i, ok := slices.BinarySearchFunc(all, t.Name, func(x Tally, name string) int { return strings.Compare(x.Name, name) })
	if !ok {
		if len(all) >= MaxTallies {
			return all
		}
		return slices.Insert(all, i, t)
	}
	x := &all[i]
	x.Count = sluice.AddCount(x.Count, t.Count)
	x.FirstMillis = min(x.FirstMillis, t.FirstMillis)
	x.LastMillis = max(x.LastMillis, t.LastMillis)
	return all
}

func earn(all []Money, m Money) []Money {
	i, ok := slices.BinarySearchFunc(all, m.Currency, func(x Money, c string) int { return strings.Compare(x.Currency, c) })
	if !ok {
		return slices.Insert(all, i, m)
	}
	all[i].Micros = sluice.AddCount(all[i].Micros, m.Micros)
	return all
}

// multiply stays within ±sluice.MaxCount.
func multiply(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if p := a * b; p/b == a && p != -sluice.MaxCount-1 {
		return p
	}
	if (a > 0) == (b > 0) {
		return sluice.MaxCount
	}
	return -sluice.MaxCount
}

// Words of a user's state in a subscription group.
const (
	subscribed   = "subscribed"
	unsubscribed = "unsubscribed"
)

func stateWord(isSubscribed bool) string {
	if isSubscribed {
		return subscribed
	}
	return unsubscribed
}

// SetGroup sets the state in a subscription group, and reports whether that
// changed it. Beyond MaxGroups it changes nothing, unless somebody leaves the group: then
// the oldest group in which this user is subscribed has no state any more, as mail of a
// group without a state is sent all the same.
func (p *Profile) SetGroup(id string, isSubscribed bool, millis int64) bool {
	i, ok := slices.BinarySearchFunc(p.Groups, id, byGroupID)
	switch {
	case !ok && len(p.Groups) >= MaxGroups && (isSubscribed || !p.dropGroup()), ok && p.Groups[i].Subscribed == isSubscribed:
		return false
	case !ok:
		i, _ = slices.BinarySearchFunc(p.Groups, id, byGroupID)
		p.Groups = slices.Insert(p.Groups, i, Group{id, isSubscribed, millis})
	default:
		p.Groups[i].Subscribed, p.Groups[i].SinceMillis = isSubscribed, millis
	}
	return true
}

// ChooseGroup is SetGroup for what somebody says of one group. To say the same again is a
// word of its own. An opt-in that comes late undoes nothing that was said since; clocks may
// differ by mail.SuppressAheadMillis. A time further ahead of now is a wrong clock's, and holds
// nothing back. An opt-out holds whenever it was said. Lists of groups among attributes are no
// such word: who sends them may not know what was said.
func (p *Profile) ChooseGroup(id string, isSubscribed bool, millis, nowMillis int64) {
	i, ok := slices.BinarySearchFunc(p.Groups, id, byGroupID)
	if ok {
		since := p.Groups[i].SinceMillis
		if since > nowMillis+mail.SuppressAheadMillis {
			since = millis
		}
		if isSubscribed && millis+mail.SuppressAheadMillis < since {
			return
		}
		millis = max(millis, since)
	}
	millis = min(millis, nowMillis+mail.SuppressAheadMillis) // else it would hold what is said until then
	if ok {
		p.Groups[i].SinceMillis = millis
	}
	p.SetGroup(id, isSubscribed, millis)
}

func byGroupID(x Group, id string) int { return strings.Compare(x.ID, id) }

// dropGroup removes the oldest group in which this user is subscribed, and reports
// whether there is one.
func (p *Profile) dropGroup() bool {
	oldest := -1
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Subscribed && (oldest < 0 || g.SinceMillis < p.Groups[oldest].SinceMillis) {
			oldest = i
		}
	}
	if oldest >= 0 {
		p.Groups = slices.Delete(p.Groups, oldest, oldest+1)
	}
	return oldest >= 0
}
