package step

import (
	"strings"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user"
)

// Mailing decides who gets the mails of a message step. It never changes.
type Mailing struct {
	Counts uint64 // a bit for each cap that counts these mails
	Asks   uint64 // a bit for each cap that may leave them out

	caps      []journey.Cap
	group     string // the subscription group; empty: none
	marketing bool
}

// MailingOf makes the one of a step, under these caps.
func MailingOf(m *plan.Mailing, caps []journey.Cap) Mailing {
	x := Mailing{caps: caps, group: m.Group, marketing: m.Class == mail.ClassMarketing}
	tags := strings.Join(m.Tags, ",")
	for i := range caps {
		if !m.IgnoreCaps && caps[i].Counts(m.Class, tags) {
			x.Counts |= 1 << i
		}
	}
	if x.marketing {
		x.Asks = x.Counts
	}
	return x
}

// Judge returns to whom a mail of the step goes. why is not 0 if it is not made: then
// LeftOut, as the person has no address or does not want such mail, Withheld or Capped.
// control is the percentage of all people who get no marketing mail of any journey, and
// got counts the mails that the person got in the window of a cap.
func (m *Mailing) Judge(id user.ID, profile string, control int, got func(byCap int) int) (to Recipient, why What) {
	to = readRecipient(profile, m.group)
	switch {
	case to.Email == "", to.left, m.marketing && to.unsubscribed:
		return to, LeftOut
	case m.marketing && InGlobalControl(id, control):
		return to, Withheld
	}
	for i := range m.caps {
		if m.Asks&(1<<i) != 0 && got(i) >= m.caps[i].Messages {
			return to, Capped
		}
	}
	return to, 0
}

// Recipient is what the profile of a person says about mail.
type Recipient struct {
	ExternalID, Email string
	unsubscribed      bool // from marketing mail
	left              bool // the subscription group of the mail
}

// readRecipient reads the text of a profile.
func readRecipient(profile, group string) (r Recipient) {
	for m := jsonscan.Read(profile); m.Next(); {
		switch m.Key {
		case "external_id":
			r.ExternalID = m.Value.Text()
		case "fields":
			for f := jsonscan.Read(m.Value.Raw); f.Next(); {
				switch f.Key {
				case "email":
					r.Email = f.Value.Text()
				case "email_subscribe":
					r.unsubscribed = f.Value.Text() == "unsubscribed"
				}
			}
		case "groups":
			for g := jsonscan.Read(m.Value.Raw); group != "" && g.Next(); {
				if g.Key == group {
					state := jsonscan.ReadArray(g.Value.Raw)
					r.left = state.Next() && state.Value.Kind == jsonscan.String && state.Value.Text() == "unsubscribed"
				}
			}
		}
	}
	return r
}
