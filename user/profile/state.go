package profile

import "sluice/lib/jsonscan"

// EmailState returns what a user has said about mail: opted_in, unsubscribed, or
// subscribed, which is also that of somebody who has said nothing.
func (p *Profile) EmailState() string {
	if v, err := jsonscan.Scan(p.Fields.Get("email_subscribe")); err == nil && v.Kind == jsonscan.String {
		return v.Text()
	}
	return subscribed
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

// State returns the state in a group in a word: subscribed or unsubscribed.
func (g *Group) State() string { return stateWord(g.Subscribed) }
