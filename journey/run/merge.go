package run

import (
	"context"

	"sluice/journey"
	"sluice/journey/step"
	"sluice/user"
)

// handOver gives the place of somebody who was merged away to the survivor. False: the
// survivor does not get it, and the person leaves.
//
// The idea. Somebody unknown has left a cart, waits, and signs in. The place goes to the
// survivor with version, step, times, occurrence, conversions and the branches taken. If both live in one
// partition, one commit moves the record. Else the commit that takes the record away
// writes an item to its own log (user.OpPlace). The store brings it to the home of the
// survivor as it forwards any update, behind merges that follow too, and makes a fact of
// it there (takeOver).
//
// The invariants. The record and the item change in one commit, the store forwards an
// item once, and the fact is applied once: at each moment the place is in one record, one
// item or one fact. If Redis of the first partition goes back, the same place may come a
// second time. It is refused then: the survivor is inside by it, or has entered no
// earlier than it. If Redis of the second goes back, the fact is read again.
//
// Messages bear the name of the user whose place it was. So one that was made just before
// a moment that Redis has lost is made again under its own name. The record has a mark of
// that user, and the survivor's profile the id.
//
// A survivor who is inside stays where it is. So does one who may enter once and was
// inside, one in the control group, and one who is out and has entered no earlier than the
// place: a place that comes a second time looks the same. Then the place ends, and is
// counted as left.
//
// Who has gone the way to its end, or was taken out, has no place to give, but has been in.
// A survivor who has not gets that record the same way: else it could enter once more what
// is entered once (remember). Who has gone to the end keeps none: so the gate learns of the
// merge, and has one mail of a step leave where both users have one (Gate.ofMerged). Who was
// taken out keeps the record, by which its mail is cancelled.
//
// What was dropped. To read the place from the other partition: its Redis may be away.
// Notes of former ids in Redis: a checkpoint has the records alone. The price: what the
// survivor does while the place is on its way to another partition, about a second, takes
// nobody out of it.
func (c *change) handOver(ctx context.Context, in *inside, f *journey.Fact) (moved bool, err error) {
	r, ok, err := c.record(ctx, in, f.Number)
	if r = r.AsOf(c.momentOf(f)); err != nil || !ok || !has(&r) && !hasBeen(&r) {
		return false, err
	}
	into, ok := user.ParseID(f.Name)
	if !ok || has(&r) && in.versionOf(&r) == nil {
		return false, nil
	}
	place, err := c.placeOf(ctx, in, f.Number, &r)
	if err != nil {
		return false, err
	}
	switch {
	case into.Partition != c.part.log.Partition():
		c.tells = true
		c.items = user.AppendUpdate(c.items, &user.Update{
			Op: user.OpPlace, Key: user.Key{Kind: user.KeyUser, Name: into.String()}, ExistingOnly: true,
			TimeMillis: c.part.clock.Now().UnixMilli(), Name: in.id, Body: place.Text(),
		})
	case hasBeen(&r):
		if err := c.remember(ctx, in, into.Number, &place); err != nil {
			return false, err
		}
	default:
		if taken, err := c.settleIn(ctx, in, into.Number, &place, f); !taken || err != nil {
			return false, err
		}
	}
	if r.State == journey.StateExited {
		return false, nil
	}
	if err := c.takeWays(ctx, in, f.Number, nil); err != nil { // else they stay for good
		return false, err
	}
	if err := c.set(ctx, in, f.Number, &journey.Record{}); err != nil || into.Partition != c.part.log.Partition() {
		return true, err
	}
	return true, c.tellTaken(ctx, in, into.Number, f)
}

// tellTaken tells who may have the place of a former user now: what a rule there looks at may
// be the survivor's, and the survivor's own fact of the merge may have come before the place.
func (c *change) tellTaken(ctx context.Context, in *inside, number int64, of *journey.Fact) error {
	took := journey.Fact{Place: of.Place, Number: number, Kind: journey.FactTookIn, TimeMillis: of.TimeMillis}
	return c.tell(ctx, in, &took)
}

// placeOf is the place of somebody who goes, with the mark of that user if mails are to be
// named by it.
func (c *change) placeOf(ctx context.Context, in *inside, number int64, r *journey.Record) (place journey.Place, err error) {
	place.Record = *r
	if v := in.versionOf(r); v != nil {
		place.Version = v.number
	}
	if place.Ways, err = c.waysOf(ctx, in, number); err != nil {
		return place, err
	}
	if hasBeen(r) {
		place.Record.Former = 0
		return place, nil
	}
	if r.Former == 0 {
		place.Record.Former = step.MarkOf(user.ID{Partition: c.part.log.Partition(), Number: number})
	}
	place.Context, err = c.contextNow(ctx, in, number, r)
	return place, err
}

// versionOf is the version that decides about a place. Who is in the control group stays
// so beyond the end of the version; then any other does as well. So does it for who was
// taken out and may convert. nil: there is none.
func (in *inside) versionOf(r *journey.Record) *version {
	v := in.versions[r.Version]
	if v == nil && !r.Inside() && r.Converts() {
		v = in.versions[uint8(in.newest)]
	}
	return v
}

// has reports whether somebody has a place, or is held in the control group.
func has(r *journey.Record) bool { return r.Inside() || r.State == journey.StateControl }

// hasBeen reports whether somebody has been in, and has no place any more.
func hasBeen(r *journey.Record) bool {
	return r.State == journey.StateFinished || r.State == journey.StateExited
}

// takeOver gives somebody the place of a former user, who was of another partition.
func (c *change) takeOver(ctx context.Context, in *inside, f *journey.Fact) error {
	if f.Name != in.id {
		return nil
	}
	place, err := journey.ReadPlace(f.Body)
	place.Record = place.Record.AsOf(c.momentOf(f))
	if err == nil && hasBeen(&place.Record) {
		return c.remember(ctx, in, f.Number, &place)
	}
	v := in.versionOf(&place.Record)
	if err != nil || v == nil || place.Version != 0 && place.Version != v.number && place.Record.Inside() { // of a newer program, or nothing can be said of its steps
		c.part.stats.Dropped.Add(1)
		return nil
	}
	if !in.stopped {
		if taken, err := c.settleIn(ctx, in, f.Number, &place, f); err != nil {
			return err
		} else if taken {
			return c.tellTaken(ctx, in, f.Number, f)
		}
	}
	v.walk.Stop([]step.Person{c.part.person(f.Number, place.Record, "")}, c.part.clock.Now(), c.out)
	c.count(v)
	return nil
}

// settleIn puts a survivor in the place of a former user by a fact, unless the survivor keeps
// its own.
func (c *change) settleIn(ctx context.Context, in *inside, number int64, place *journey.Place, f *journey.Fact) (taken bool, err error) {
	r := &place.Record
	own, ok, err := c.record(ctx, in, number)
	if err != nil || !ok {
		return false, err
	}
	if own = own.AsOf(c.momentOf(f)); own.State != journey.StateNone {
		once := in.versionOf(r).walk.Plan().Entry.Once
		if has(&own) || once || own.Entered >= r.Entered {
			return false, nil
		}
	}
	if err := c.set(ctx, in, number, r); err != nil {
		return false, err
	}
	c.keep(in, number, r, place.Context)
	return true, c.takeWays(ctx, in, number, place.Ways)
}

// remember notes of a survivor, who has not been in, that a former user has.
func (c *change) remember(ctx context.Context, in *inside, number int64, place *journey.Place) error {
	own, ok, err := c.record(ctx, in, number)
	if err != nil || !ok || own.State != journey.StateNone {
		return err
	}
	if err := c.set(ctx, in, number, &place.Record); err != nil {
		return err
	}
	return c.takeWays(ctx, in, number, place.Ways)
}
