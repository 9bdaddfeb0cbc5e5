package run

import (
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/user"
)

// mail makes a mail of a person who is at a message step. A person without an address,
// or who does not want such mail, gets none, and goes on all the same.
//
// The message is named by where and when the person is: a way that is decided again,
// after Redis has lost the last moments, makes the same one. So a place that was taken
// over from a former user keeps that user's names.
func (c *change) mail(in *inside, v *version, p *step.Person, did step.Did) {
	m := v.mails[did.Step]
	if m == nil {
		c.out.NoMail(did.Step, step.LeftOut)
		return
	}
	moment := c.part.clock.Now()
	to, why := m.Judge(p.ID, p.Profile, c.part.control, func(byCap int) int { return c.got(p.ID.Number, byCap, moment) })
	if why != 0 {
		c.out.NoMail(did.Step, why)
		return
	}
	now := moment.UnixMilli()
	s := m.send
	s.To, s.User = to.Email, to.ExternalID
	if s.User == "" {
		s.User = p.ID.String()
	}
	s.AcceptedMillis, s.DueMillis, s.ExpiresMillis = now, now, now+m.latestMillis
	r := &c.out.Records[did.Person]
	s.Journey, s.Step, s.Occurrence = in.id, v.walk.Plan().Steps[did.Step].ID, int(r.Occurrence)
	s.Person = p.ID.Number
	s.Message = sluice.NamedMessageID(int64(r.Entered)*1000, mailName(in.number, s.Step, r.Occurrence, namedAs(p, r.Former)), 0)
	c.part.crowd.made(in, m.lane)
	in.rate.tokens--
	if m.Counts != 0 && c.part.capping.asks {
		c.made[p.ID.Number] = append(c.made[p.ID.Number], made{millis: now, caps: m.Counts})
	}
	if c.moment(p) > c.part.recovered {
		c.items = mail.AppendSend(c.items, &s)
		return
	}
	item := mail.AppendSend(nil, &s)
	c.doubtful = append(c.doubtful, doubtful{s.Key(), item})
	c.bytes += len(item)
}

// mailName is what the id of a mail is made of. It must never change: mail of before
// would be made a second time.
func mailName(journey int64, step string, occurrence uint16, id user.ID) string {
	return "journey/" + strconv.FormatInt(journey, 10) + "/" + step + "/" + strconv.Itoa(int(occurrence)) + "/" + id.String()
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
