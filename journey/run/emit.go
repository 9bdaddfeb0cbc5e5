package run

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/journey"
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
func (c *change) mail(in *inside, v *version, p *step.Person, did step.Did, variant string) {
	m := v.mails[did.Step]
	moment := c.part.clock.Now()
	to, why := m.Judge(p.ID, p.Profile, c.part.control, func(byCap int) int { return c.got(p.ID.Number, byCap, moment) })
	if why != 0 {
		c.out.NoMail(did.Step, why)
		return
	}
	now := moment.UnixMilli()
	expires := c.dueMillis(in, p, now) + m.latestMillis
	if expires < now {
		c.out.NoMail(did.Step, step.LeftOut)
		return
	}
	s := m.send
	if m.with != nil {
		s.Content = m.with.With(p.Given.Context)
	}
	s.To, s.User = to.Email, to.ExternalID
	if s.User == "" {
		s.User = p.ID.String()
	}
	// Mail of before a resume may be cancelled (Gate): this is none, whatever the clock says.
	s.AcceptedMillis, s.DueMillis, s.ExpiresMillis = max(now, in.skip+1), now, expires
	r := &c.out.Records[did.Person]
	s.Journey, s.Step, s.Occurrence = in.id, v.walk.Plan().Steps[did.Step].ID, int(r.Occurrence)
	s.Person, s.Variant = p.ID.Number, variant
	s.Message = messageOf(in.number, s.Step, r, p.NamedAs(r.Former))
	c.part.crowd.made(in, m.lane)
	in.rate.tokens--
	if m.Counts != 0 && c.part.capping.asks {
		c.made[p.ID.Number] = append(c.made[p.ID.Number], made{millis: now, caps: m.Counts})
	}
	if r.Entered > c.part.recovered+clockMargin {
		c.items = mail.AppendSend(c.items, &s)
		return
	}
	item := mail.AppendSend(nil, &s)
	c.doubtful = append(c.doubtful, doubtful{s.Key(), item})
	c.bytes += len(item)
}

// dueMillis is when a person was due who gets a mail: before a pause, or before nothing
// moved for a while. Who enters by a run was due at its time. Whose turn it is by the rate of
// the journey, or who comes by a fact, is due now.
func (c *change) dueMillis(in *inside, p *step.Person, now int64) int64 {
	if c.byRun && p.EnteredAt != 0 {
		return min(int64(p.EnteredAt)*1000, now)
	}
	if c.second != 0 || p.EnteredAt != 0 || c.paced == in || p.Record.State != journey.StateInside {
		return now
	}
	return min(int64(p.Record.Due)*1000, now)
}

// messageOf makes the id of a mail. It must never change: mail of before would be made a
// second time.
//
// The ledger is kept in the order of ids, and a wave makes mail in the order of people's
// numbers. So an id begins with the day of the person's entry and a stretch of numbers:
// mails of one commit then lie side by side in the ledger, also if their people entered
// over a week (docs/decisions/61). A hash of the name tells them apart. The time of the
// decision is no part of it: a decision that is made again has another.
func messageOf(number int64, step string, r *journey.Record, id user.ID) string {
	const day = 86400
	place := uint32(id.Partition)<<16 | uint32(uint16(id.Number/namedTogether))
	return sluice.PlacedMessageID(int64(r.Entered-r.Entered%day)*1000, place, appendMailName(make([]byte, 0, 192), number, step, r, id))
}

// namedTogether is how many people's mails of a day have ids side by side.
const namedTogether = 512

// appendMailName appends what the id of a mail is made of.
func appendMailName(dst []byte, number int64, step string, r *journey.Record, id user.ID) []byte {
	dst = append(strconv.AppendInt(append(dst, "journey/"...), number, 10), '/')
	dst = append(append(dst, step...), '/')
	dst = append(strconv.AppendUint(dst, uint64(r.Occurrence), 10), '/')
	dst = append(strconv.AppendUint(dst, uint64(r.Entered), 10), '/')
	return append(dst, id.String()...)
}

// update has the store change a profile: once, because the item goes with the commit. What
// adds to something bears a name, for a way that is decided again makes it again.
func (c *change) update(in *inside, v *version, p *step.Person, did step.Did) {
	s := &v.walk.Plan().Steps[did.Step]
	name := ""
	if addsTo(s.Update) {
		r := &c.out.Records[did.Person]
		name = updateName(in.number, s.ID, r, p.NamedAs(r.Former))
	}
	c.tells = true
	c.items = user.AppendUpdate(c.items, &user.Update{
		Op: user.OpAttributes, Key: user.Key{Kind: user.KeyUser, Name: p.ID.String()}, App: name,
		ExistingOnly: true, TimeMillis: c.part.clock.Now().UnixMilli(), Body: s.Update,
	})
}

// addsTo reports whether an update may add to what is there: to a number, or a list of
// objects. Others come to the same if made again.
func addsTo(update string) bool {
	return strings.Contains(update, `{"inc":`) || strings.Contains(update, `"$add":`)
}

// updateName names an update of a step as messageOf names its mail, in 16 digits: it must be
// told from those of one profile alone.
func updateName(number int64, step string, r *journey.Record, id user.ID) string {
	sum := sha256.Sum256(appendMailName(make([]byte, 0, 192), number, step, r, id))
	return hex.EncodeToString(sum[:8])
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
