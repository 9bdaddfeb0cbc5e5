package run

import (
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/journey/step"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user"
	"sluice/user/rule"
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
		c.out.LeaveOut(did.Step)
		return
	}
	known := readRecipient(p.Profile, m.group)
	if known.email == "" || !known.wants(m) {
		c.out.LeaveOut(did.Step)
		return
	}
	if m.send.Class == mail.ClassMarketing && inGlobalControl(p.ID, c.part.control) {
		c.out.Withhold(did.Step)
		return
	}
	if m.asks != 0 && c.overCap(p.ID.Number, m, c.part.clock.Now()) {
		c.out.Cap(did.Step)
		return
	}
	now := c.part.clock.Now().UnixMilli()
	s := m.send
	s.To, s.User = known.email, known.externalID
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
	if m.counts != 0 && c.part.capping.asks {
		c.made[p.ID.Number] = append(c.made[p.ID.Number], made{millis: now, caps: m.counts})
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

// inGlobalControl reports whether somebody is among so many percent of all people who
// get no marketing mail of any journey. Who is among 5 percent is among 10 too.
func inGlobalControl(id user.ID, percent int) bool {
	return rule.Bucket(id, globalControlSeed) < int64(percent)*100
}

// globalControlSeed is what buckets of that group are named by. It must never change:
// people would leave the group and others come into it.
const globalControlSeed = "control of all journeys"

// recipient is what the profile of a person says about mail.
type recipient struct {
	externalID, email string
	unsubscribed      bool // from marketing mail
	left              bool // the subscription group of the mail
}

// wants reports whether the person wants mails of a step.
func (r *recipient) wants(m *mailing) bool {
	return !r.left && (m.send.Class != mail.ClassMarketing || !r.unsubscribed)
}

// readRecipient reads the text of a profile.
func readRecipient(profile, group string) (r recipient) {
	for m := jsonscan.Read(profile); m.Next(); {
		switch m.Key {
		case "external_id":
			r.externalID = m.Value.Text()
		case "fields":
			for f := jsonscan.Read(m.Value.Raw); f.Next(); {
				switch f.Key {
				case "email":
					r.email = f.Value.Text()
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
