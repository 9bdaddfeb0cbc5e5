package run

import (
	"fmt"
	"maps"
	"slices"

	"sluice"
	"sluice/journey/step"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user"
)

// mail makes a mail of a person who is at a message step. A person without an address
// gets none, and goes on all the same.
//
// The message is named by where and when the person is: a way that is decided again,
// after Redis has lost the last moments, makes the same one.
func (c *change) mail(in *inside, v *version, p *step.Person, did step.Did) {
	m := v.mails[did.Step]
	address := emailOf(p.Profile)
	if m == nil || address == "" {
		return
	}
	now := c.part.clock.Now().UnixMilli()
	s := m.send
	s.To, s.User = address, p.ID.String()
	s.AcceptedMillis, s.DueMillis, s.ExpiresMillis = now, now, now+m.latestMillis
	r := &c.out.Records[did.Person]
	name := fmt.Sprintf("journey/%d/%s/%d/%s", in.number, v.walk.Plan().Steps[did.Step].ID, r.Occurrence, p.ID)
	s.Message = sluice.NamedMessageID(int64(r.Entered)*1000, name, 0)
	c.items = mail.AppendSend(c.items, &s)
}

// emailOf reads the address in the text of a profile.
func emailOf(profile string) string {
	m := jsonscan.Read(profile)
	for m.Next() {
		if m.Key != "fields" {
			continue
		}
		fields := jsonscan.Read(m.Value.Raw)
		for fields.Next() {
			if fields.Key == "email" {
				return fields.Value.Text()
			}
		}
	}
	return ""
}

// update has the store change a profile: once, because the item goes with the commit.
func (c *change) update(v *version, p *step.Person, at int) {
	c.items = user.AppendUpdate(c.items, &user.Update{
		Op: user.OpAttributes, Key: user.Key{Kind: user.KeyUser, Name: p.ID.String()},
		ExistingOnly: true, TimeMillis: c.part.clock.Now().UnixMilli(), Body: v.walk.Plan().Steps[at].Update,
	})
}

// count counts what has happened at steps, as series of the journey.
func (c *change) count(v *version) {
	now := c.part.clock.Now().UnixMilli()
	for _, k := range slices.SortedFunc(maps.Keys(c.out.Counts), step.Count.Compare) {
		c.items = sluice.AppendCount(c.items, &sluice.Count{
			Kind: sluice.KindSystem, Name: v.walk.CountName(k), TimeMillis: now, By: int64(c.out.Counts[k]),
		})
	}
}
