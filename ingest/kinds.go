package ingest

import (
	"fmt"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// itemKind is what the store makes of the items of one kind. Items keep nothing of
// their payload's memory beyond the transaction that they are in.
type itemKind struct {
	// add adds an item to a transaction's effect. An error says why it can never be
	// read: it becomes a dead letter.
	add func(t *storing, place sluice.Place, payload []byte) error

	// named returns who is named in an item, users and addresses as names of
	// erasures; nil: nobody ever is.
	named func(payload []byte) []string
}

// itemKinds is the one table of what logs may hold. A new kind of item is a row here,
// a number in batch.go of the root, and for a fact its table: docs/extend.md.
var itemKinds = map[sluice.ItemKind]itemKind{
	sluice.ItemEvent:   {(*storing).addEvent, eventNames},
	sluice.ItemDead:    {(*storing).addDead, deadNames},
	sluice.ItemCount:   {(*storing).addCount, nil},
	sluice.ItemUser:    {(*storing).addUpdate, updateNames},
	sluice.ItemSend:    {(*storing).addSend, sendNames},
	sluice.ItemKnown:   {(*storing).addSend, sendNames},
	sluice.ItemOutcome: {(*storing).addOutcome, outcomeNames},
	sluice.ItemContext: {(*storing).addContext, nil}, // it names people by number
	sluice.ItemMarker:  {func(*storing, sluice.Place, []byte) error { return nil }, nil},

	// These two are for the lanes: what became of the send comes as an outcome.
	sluice.ItemCancel: {checkOutcome, outcomeNames},
	sluice.ItemDecide: {checkOutcome, outcomeNames},
}

// kindList is itemKinds by number: it is asked for each item.
var kindList [256]itemKind

func init() {
	for n := range kindList {
		kindList[n].add = func(*storing, sluice.Place, []byte) error {
			return fmt.Errorf("item of kind %d, which this program does not know; was it written by a newer one?", n)
		}
	}
	for kind, k := range itemKinds {
		kindList[kind] = k
	}
	if sluice.PretendNext {
		kindList[sluice.ItemNext] = kindList[sluice.ItemEvent]
	}
}

func kindOf(kind sluice.ItemKind) *itemKind { return &kindList[kind] }

func (t *storing) addEvent(place sluice.Place, payload []byte) error {
	events := append(t.effect.Events, store.StoredEvent{Place: place})
	last := &events[len(events)-1]
	if err := sluice.DecodeEvent(payload, &last.Event); err != nil {
		return err
	}
	t.effect.Events = events
	if last.Kind != sluice.KindMail {
		t.names[last.Kind.String()]++
		if last.User != "" && !last.Apart {
			t.countFor(last)
		}
		return nil
	}
	t.addReported(&last.Event, place)
	if last.Origin == sluice.OriginOwnRepeat {
		t.effect.Events = events[:len(events)-1]
		return nil
	}
	t.names[last.Name]++ // the name points into the batch; Stats keeps its own
	return nil
}

func (t *storing) addDead(place sluice.Place, payload []byte) error {
	d := sluice.DeadLetter{Place: place}
	if err := sluice.DecodeDead(payload, &d); err != nil {
		return err
	}
	t.effect.Dead = append(t.effect.Dead, d)
	return nil
}

func (t *storing) addCount(_ sluice.Place, payload []byte) error {
	var c sluice.Count
	if err := sluice.DecodeCount(payload, &c); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	t.count(c)
	return nil
}

func (t *storing) addContext(place sluice.Place, payload []byte) error {
	k := journey.Kept{Partition: place.Partition}
	if err := k.Decode(payload); err != nil {
		return err
	}
	t.effect.Contexts = append(t.effect.Contexts, k)
	return nil
}

func (t *storing) addUpdate(place sluice.Place, payload []byte) error {
	updates := append(t.updates, users.Update{Place: place})
	last := &updates[len(updates)-1].Update
	if err := user.DecodeUpdate(payload, last); err != nil {
		return err
	}
	timeOfConsent(last, place.Position)
	t.updates = updates
	t.keys[last.Key] = struct{}{}
	return nil
}

func checkOutcome(_ *storing, _ sluice.Place, payload []byte) error {
	return mail.DecodeOutcome(payload, new(mail.Outcome))
}

// names are a user and an address as names of erasures.
func names(user, address string) []string {
	return []string{user, store.AddressErasure(strings.ToLower(address))}
}

var (
	eventNames   = namesIn(sluice.DecodeEvent, func(e *sluice.Event) []string { return names(e.User, e.Email) })
	sendNames    = namesIn(mail.DecodeSend, func(s *mail.Send) []string { return names(s.User, s.To) })
	outcomeNames = namesIn(mail.DecodeOutcome, func(o *mail.Outcome) []string { return names(o.User, o.To) })
	updateNames  = namesIn(user.DecodeUpdate, updateUsers)

	// deadNames looks into no batch and no item: it would be read as deep as it is nested.
	deadNames = namesIn(sluice.DecodeDead, func(d *sluice.DeadLetter) []string {
		if d.Form == sluice.FormItem || d.Form == sluice.FormBatch {
			return nil
		}
		return UsersOf(d)
	})
)

// namesIn names those who are in an item; of one that cannot be read, nobody.
func namesIn[T any](decode func([]byte, *T) error, of func(*T) []string) func([]byte) []string {
	return func(payload []byte) []string {
		var v T
		if decode(payload, &v) != nil {
			return nil
		}
		return of(&v)
	}
}
