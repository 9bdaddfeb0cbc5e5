package profile

import (
	"slices"

	"sluice/lib/jsonscan"
	"sluice/mail"
)

// emailSubscribe is the standard attribute that says whether a user gets mail.
const emailSubscribe = "email_subscribe"

// EmailState returns what a user has said about mail: opted_in, unsubscribed, or
// subscribed, which is also that of somebody who has said nothing.
func (p *Profile) EmailState() string {
	if v, err := jsonscan.Scan(p.Fields.Get(emailSubscribe)); err == nil && v.Kind == jsonscan.String {
		return v.Text()
	}
	return subscribed
}

// Subscribe sets what EmailState returns to a word, said at a moment in ms. What is
// reported counts by the rule of suppressions (mail.Suppression.Changes): the later wins,
// and at one moment what unsubscribes. A report that somebody is subscribed takes nothing
// from a user who has opted in. What is not reported was said to us, and accepted then:
// beside what was said within mail.SuppressAheadMillis it is the later.
func (p *Profile) Subscribe(state string, atMillis int64, reported bool, nowMillis int64) {
	said := mail.Suppression{TimeMillis: atMillis, Removed: state != unsubscribed, Own: !reported}
	var stored *mail.Suppression
	was := p.EmailState()
	if p.EmailSinceMillis != 0 {
		stored = &mail.Suppression{TimeMillis: p.EmailSinceMillis, Removed: was != unsubscribed}
	}
	if stored == nil && reported && said.Removed && was == unsubscribed {
		return // said before times were kept: a report may be older
	}
	said.Settle(stored, nowMillis)
	said.Said = !reported
	if same := !reported && stored != nil && said.TimeMillis == stored.TimeMillis; !same && !said.Changes(stored, nowMillis) {
		return
	}
	p.EmailSinceMillis = said.TimeMillis
	if !reported || !said.Removed || was == unsubscribed {
		p.Fields.Set(emailSubscribe, Quoted(state))
	}
}

// EmailStateFrom takes over what another profile says of mail, if this one says nothing,
// or something that is known to be older; of one moment, what unsubscribes.
func (p *Profile) EmailStateFrom(other *Profile) {
	state, since := other.Fields.Get(emailSubscribe), other.EmailSinceMillis
	silent := p.Fields.Get(emailSubscribe) == ""
	later := p.EmailSinceMillis != 0 && (since > p.EmailSinceMillis || since == p.EmailSinceMillis && other.EmailState() == unsubscribed)
	if state != "" && (silent || later) {
		p.Fields.Set(emailSubscribe, state)
		p.EmailSinceMillis = other.EmailSinceMillis
	}
}

// GroupsFrom takes over what another profile says of groups, where this one says nothing. A
// group that the other has left is left, unless this one has said something later.
func (p *Profile) GroupsFrom(other *Profile) {
	for _, g := range other.Groups {
		i, ok := slices.BinarySearchFunc(p.Groups, g.ID, byGroupID)
		switch {
		case !ok:
			p.SetGroup(g.ID, g.Subscribed, g.SinceMillis)
		case !g.Subscribed && g.SinceMillis >= p.Groups[i].SinceMillis:
			p.Groups[i] = g
		}
	}
}

// IsAudience reports whether mail can be meant for users in a state: those who
// have opted in, or those who are subscribed. Subscribed includes opted in.
func IsAudience(state string) bool { return state == optedIn || state == subscribed }

// InAudience reports whether mail for those in a state is for this user too. Of
// nobody (nil) it is not known.
func (p *Profile) InAudience(state string) bool {
	if p == nil {
		return false
	}
	is := p.EmailState()
	return is == optedIn || is == subscribed && state == subscribed
}

// Left reports whether this user has left a subscription group. Of nobody (nil) it is
// not known.
func (p *Profile) Left(group string) bool {
	return p != nil && slices.ContainsFunc(p.Groups, func(g Group) bool { return g.ID == group && !g.Subscribed })
}

// LeavesNoMore reports whether the user has left as many groups as a profile can have: it
// leaves no other (SetGroup).
func (p *Profile) LeavesNoMore() bool {
	return p != nil && len(p.Groups) >= MaxGroups && !slices.ContainsFunc(p.Groups, func(g Group) bool { return g.Subscribed })
}

// State returns the state in a group in a word: subscribed or unsubscribed.
func (g *Group) State() string { return stateWord(g.Subscribed) }
