package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// What happens to mail, as journeys see it.
//
// The idea. Three partitions have a part in an open: that of the event, which goes by
// whom the event names; that of the send; and the home of its user. A row of the ledger
// is changed in the partition of the send alone, and a fact is in the home. So an event
// of another partition is forwarded to that of the send, and a fact of another home to
// there, each as a row of forwards in this transaction: so it arrives once. Mail of
// journeys is made at home: nearly all of it takes one step at most.
//
// A fact is never written into another partition. Its place is that of an item, and
// who reads facts goes on behind the place of the last. Places of two logs have no
// order: the reader of the home may be past that of the event already, and would pass
// the fact over. What is forwarded becomes an item of the home's own log.
//
// The invariants. A mail is received once: when its row becomes sent. A reaction is a
// fact each time, and the first of its kind sets the column. It counts if the row of its
// send is stored by then: a row is stored within a second after the mail is queued.
//
// What was dropped. To change the rows of other partitions here: this transaction would
// wait for one of a process that is frozen, with all its partitions. To forward each
// reaction to the home at once: the home does not know of other mail than its own.

// mailed is something that has happened to a send.
type mailed struct {
	mail.SendKey
	event  journey.MailEvent
	millis int64
	email  string // of a reaction: whom the event names
	place  sluice.Place
}

// mailedRow is what of a send's row decides where that goes.
type mailedRow struct {
	mail.SendKey
	part    int
	to      string
	tags    string
	journey string
	step    string
	user    user.ID
}

// reacting is what a transaction makes of mails that something has happened to.
type reacting struct {
	t       *txn
	e       *store.Effect
	rows    map[mail.SendKey]mailedRow
	counts  []sluice.Count
	facts   []journey.Fact
	forward []user.Forward // without ids
}

// maxReactions bounds the keys of one statement about reactions.
const maxReactions = maxUserRows

// mailCount counts what has happened to a mail for the first time, at its step of a
// journey; none: it is of no journey.
func mailCount(id, step string, event journey.MailEvent, millis int64) []sluice.Count {
	if id == "" {
		return nil
	}
	return []sluice.Count{{Kind: sluice.KindSystem, Name: journey.MailCountName(id, step, event), TimeMillis: millis, By: 1}}
}

// react takes in an effect's reactions, and tells journeys of these and of what was
// received. counts are those of what was received.
//
// Counts of mail are added behind all other counts, in every transaction, and have names
// of their own: so transactions wait for each other and never in a circle.
func (t *txn) react(ctx context.Context, e *store.Effect, received []mailed, counts []sluice.Count, applied *store.Applied) error {
	all := make([]mailed, 0, len(e.Reactions))
	for i := range e.Reactions {
		r := &e.Reactions[i]
		event := journey.MailOpened
		if r.Click {
			event = journey.MailClicked
		}
		all = append(all, mailed{SendKey: r.SendKey, event: event, millis: r.TimeMillis, email: r.Email, place: r.Place})
	}
	if e.MailNames != nil && e.MailNames.HasMails(journey.MailReceived) {
		all = append(all, received...)
	}
	if len(all) == 0 {
		return t.addCounts(ctx, counts, e.Stripe)
	}
	x := &reacting{t: t, e: e, counts: counts, rows: make(map[mail.SendKey]mailedRow)}
	for _, step := range []func(context.Context, []mailed) error{x.read, x.take, x.settle} {
		if err := step(ctx, all); err != nil {
			return fmt.Errorf("take in what happened to %d mails: %w", len(all), err)
		}
	}
	if err := t.addCounts(ctx, x.counts, e.Stripe); err != nil {
		return fmt.Errorf("count what happened to mails of journeys: %w", err)
	}
	if err := t.addForwards(ctx, x.forward, e.Forwarded, applied); err != nil {
		return fmt.Errorf("forward what happened to mails: %w", err)
	}
	return t.addJourneyFacts(ctx, x.facts)
}

// read reads the rows of sends. Of a message alone those with the numbers 0 and 1: so
// it is known whether it has one.
func (x *reacting) read(ctx context.Context, all []mailed) error {
	keys := make(map[mail.SendKey]struct{})
	for i := range all {
		if k := all[i].SendKey; k.Number == mail.AnyNumber {
			keys[mail.SendKey{Message: k.Message}], keys[mail.SendKey{Message: k.Message, Number: 1}] = struct{}{}, struct{}{}
		} else {
			keys[k] = struct{}{}
		}
	}
	for piece := range slices.Chunk(slices.SortedFunc(maps.Keys(keys), compareKeys), maxReactions) {
		messages := byNumber(piece)
		for _, number := range slices.Sorted(maps.Keys(messages)) {
			statement := named(rawQuery(x.t.store.d, "sends_mailed"), len(messages[number]))
			err := x.t.each(ctx, statement, append([]any{number}, anys(messages[number])...), func(scan scanner) error {
				var r mailedRow
				var person [2]sql.NullInt64
				err := scan(&r.Message, &r.Number, &r.part, &r.to, &r.tags, &r.journey, &r.step, &person[0], &person[1])
				r.user = user.ID{Partition: int(person[0].Int64), Number: person[1].Int64}
				x.rows[r.SendKey] = r
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the row that something has happened to; false: none, or nobody knows
// which.
func (x *reacting) find(m *mailed) (mailedRow, bool) {
	if m.Number != mail.AnyNumber {
		r, ok := x.rows[m.SendKey]
		return r, ok
	}
	r, ok := x.rows[mail.SendKey{Message: m.Message}]
	if m.email != "" {
		return r, ok && strings.EqualFold(r.to, m.email)
	}
	_, several := x.rows[mail.SendKey{Message: m.Message, Number: 1}]
	return r, ok && !several
}

// take sets the first of reactions to sends of the place's own partition, and forwards
// the others to theirs.
func (x *reacting) take(ctx context.Context, all []mailed) error {
	for i := range all {
		m := &all[i]
		if m.event == journey.MailReceived {
			continue
		}
		r, ok := x.find(m)
		if !ok {
			m.Message = "" // settle passes over it
			continue
		}
		m.SendKey = r.SendKey
		if r.part != m.place.Partition {
			x.forward = append(x.forward, user.Forward{From: m.place.Partition, To: r.part, Items: reactionItem(m, r.to)})
			m.Message = ""
			continue
		}
		first, err := x.t.changed(ctx, "send_"+string(m.event), x.t.store.d.millis(m.millis), m.Message, m.Number)
		if err != nil {
			return err
		}
		if first > 0 {
			x.counts = append(x.counts, mailCount(r.journey, r.step, m.event, m.millis)...)
		}
	}
	return nil
}

// reactionItem is a reaction as an item of the log of its send's partition: its event
// once more, without a row.
func reactionItem(m *mailed, to string) []byte {
	name := sluice.EventOpened
	if m.event == journey.MailClicked {
		name = sluice.EventClicked
	}
	send := mail.Send{Message: m.Message, Number: m.Number}
	return sluice.AppendEvent(nil, &sluice.Event{
		Kind: sluice.KindMail, Origin: sluice.OriginOwnRepeat, TimeMillis: m.millis, Name: name, Email: to, Message: m.Message, Properties: `{"send":"` + send.ID() + `"}`,
	})
}

// settle makes facts of what journeys ask for, at the homes of the users.
func (x *reacting) settle(ctx context.Context, all []mailed) error {
	if x.e.MailNames == nil {
		return nil
	}
	wanted := make(map[user.ID][]*mailed)
	for i := range all {
		r, ok := x.rows[all[i].SendKey]
		if ok && !r.user.IsZero() && x.e.MailNames.HasMail(all[i].event, r.mail()) {
			wanted[r.user] = append(wanted[r.user], &all[i])
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	homes, err := x.homes(ctx, slices.SortedFunc(maps.Keys(wanted), user.ID.Compare))
	if err != nil {
		return err
	}
	for id, some := range wanted {
		home, there := homes[id]
		for _, m := range some {
			r := x.rows[m.SendKey]
			switch {
			case !there:
			case home == id && id.Partition == m.place.Partition:
				x.facts = append(x.facts, journey.Fact{Place: m.place, Number: id.Number, Kind: journey.FactMail, Name: string(m.event), TimeMillis: m.millis, Body: r.mail().Text()})
			case sluice.Writes(sluice.JourneyForms):
				x.forward = append(x.forward, user.Forward{From: m.place.Partition, To: home.Partition, Items: user.AppendUpdate(nil, &user.Update{
					Op: user.OpMailed, Key: user.Key{Kind: user.KeyUser, Name: home.String()}, ExistingOnly: true, TimeMillis: m.millis, Name: string(m.event), Body: r.mail().Text(),
				})})
			}
		}
	}
	return nil
}

func (r *mailedRow) mail() *journey.Mailed {
	return &journey.Mailed{Message: r.Message, Tags: r.tags, Journey: r.journey, Step: r.step}
}

// homes returns where users are by now: themselves, or whom they were merged into last,
// as far as one step tells. Who is no more is left out.
func (x *reacting) homes(ctx context.Context, ids []user.ID) (map[user.ID]user.ID, error) {
	homes := make(map[user.ID]user.ID, len(ids))
	numbers := make(map[int][]any)
	for _, id := range ids {
		numbers[id.Partition] = append(numbers[id.Partition], id.Number)
	}
	for _, part := range slices.Sorted(maps.Keys(numbers)) {
		for piece := range slices.Chunk(numbers[part], maxUserRows) {
			err := x.t.each(ctx, named(rawQuery(x.t.store.d, "user_homes"), len(piece)), append([]any{part}, piece...), func(scan scanner) error {
				var number int64
				var into user.ID
				err := scan(&number, &into.Partition, &into.Number)
				id := user.ID{Partition: part, Number: number}
				if into.IsZero() {
					into = id
				}
				homes[id] = into
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("user_homes: %w", err)
			}
		}
	}
	return homes, nil
}

// addForwards writes forwards, and gives them the next numbers of their partitions.
func (t *txn) addForwards(ctx context.Context, all []user.Forward, above map[int]int64, applied *store.Applied) error {
	if len(all) == 0 {
		return nil
	}
	partitions := make(map[int]*user.Numbers)
	for i := range all {
		partitions[all[i].From] = &user.Numbers{}
	}
	applied.Forwarded = len(all)
	err := t.each(ctx, named(rawQuery(t.store.d, "user_numbers"), len(partitions)), anys(slices.Sorted(maps.Keys(partitions))), func(scan scanner) error {
		var part int
		var n user.Numbers
		err := scan(&part, &n.User, &n.Forward)
		partitions[part] = &n
		return err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b user.Forward) int { return cmp.Compare(a.From, b.From) })
	now := t.store.clock.Now().UnixMilli()
	args := make([]any, 0, 4*len(all))
	for i := range all {
		n := partitions[all[i].From]
		n.Forward = user.NextForward(max(n.Forward, above[all[i].From]), now)
		args = append(args, all[i].From, n.Forward, all[i].To, all[i].Items)
	}
	if _, err := t.rows(ctx, "forwards_add", 4, args); err != nil {
		return err
	}
	u := &user.Changes{Numbers: make(map[int]user.Numbers)}
	for p, n := range partitions {
		u.Numbers[p] = *n
	}
	return t.putUserNumbers(ctx, u)
}
