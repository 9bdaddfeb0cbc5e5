package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
// The invariants. A mail is received once: when its row becomes sent. What a machine did
// sets the columns of all reactions alone. A reaction of a person is a fact each time,
// and the first of its kind sets the column and counts. It counts if the row of its
// send is stored by then: a row is stored within a second after the mail is queued.
//
// A click that our own pages have seen is looked at twice. At first it is noted in the
// row of its send. It becomes a forward of the partition to itself, which leaves after
// mail.ClicksWindowMillis. When that is read, all clicks that could speak against it
// are noted (mail.Clicks), and it is a person's or nobody's.
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

	// As of a mail.Reaction. reaction is 0 of what was received.
	reaction                    mail.ReactionKind
	machine, own, judged, first bool
	forwarded                   bool
	link                        int
}

// mailedRow is what of a send's row decides where that goes.
type mailedRow struct {
	mail.SendKey
	part int
	to   string
	tags string
	user user.ID
	countedMail

	sentMillis int64 // when it was sent; 0: it is not
	waits      bool

	// When it was opened and clicked first, and by a person; clicks as of mail.Clicks.
	opened, humanOpened, clicked, humanClicked int64

	clicks  mail.Clicks
	changed bool
	counted bool // of the rest only what it is counted under is known
}

// first returns the columns of what happened.
func (r *mailedRow) first(event journey.MailEvent) (any, human *int64) {
	if event == journey.MailClicked {
		return &r.clicked, &r.humanClicked
	}
	return &r.opened, &r.humanOpened
}

// soonMillis is how soon after a mail was sent nobody can have read it.
const soonMillis = 2000

// early reports whether something happened to a mail before a person had it. Times that
// others report are whole seconds, or those of other clocks: only ours tell.
func (r *mailedRow) early(m *mailed) bool {
	return m.own && (r.waits || r.sentMillis != 0 && m.millis < r.sentMillis+soonMillis)
}

// reacting is what a transaction makes of mails that something has happened to.
type reacting struct {
	t       *txn
	e       *store.Effect
	rows    map[mail.SendKey]*mailedRow
	counts  []sluice.Count
	sums    reactionSums
	facts   []journey.Fact
	forward []user.Forward // without ids
}

// maxReactions bounds the keys of one statement about reactions.
const maxReactions = maxUserRows

// rawCount is mailCount of what anybody did, machines included.
func rawCount(r *mailedRow, event journey.MailEvent, millis int64) []sluice.Count {
	if r.journey == "" {
		return nil
	}
	return []sluice.Count{{Kind: sluice.KindSystem, Name: journey.MailRawName(r.journey, r.step, event), TimeMillis: millis, By: 1}}
}

// mailCount counts what has happened to a mail for the first time, at its step of a
// journey; none: it is of no journey.
func mailCount(id, step string, event journey.MailEvent, millis int64) []sluice.Count {
	if id == "" {
		return nil
	}
	return []sluice.Count{{Kind: sluice.KindSystem, Name: journey.MailCountName(id, step, event), TimeMillis: millis, By: 1}}
}

// react takes in an effect's reactions, and tells journeys of these and of what was
// received. l has what the effect's outcomes are counted as.
//
// Counts of mail are added behind all other counts, in every transaction, and have names
// of their own: so transactions wait for each other and never in a circle.
func (t *txn) react(ctx context.Context, e *store.Effect, l *ledger, applied *store.Applied) error {
	all := t.fresh(e.Reactions)
	if e.MailNames != nil && e.MailNames.HasMails(journey.MailReceived) {
		all = append(all, l.received...)
	}
	x := &reacting{t: t, e: e, counts: l.counts, sums: l.sums, rows: make(map[mail.SendKey]*mailedRow)}
	if len(all) == 0 {
		return x.count(ctx)
	}
	for _, step := range []func(context.Context, []mailed) error{x.address, x.read, x.take, x.write, x.settle} {
		if err := step(ctx, all); err != nil {
			return fmt.Errorf("take in what happened to %d mails: %w", len(all), err)
		}
	}
	if err := x.count(ctx); err != nil {
		return err
	}
	if err := t.addForwards(ctx, x.forward, e.Forwarded, applied); err != nil {
		return fmt.Errorf("forward what happened to mails: %w", err)
	}
	t.mailFacts = x.facts
	return nil
}

// fresh returns what the events of an effect say that this transaction has inserted: the
// others are repeats. What a forward brings has no event here, and comes once.
func (t *txn) fresh(reactions []mail.Reaction) []mailed {
	all := make([]mailed, 0, len(reactions))
	for i := range reactions {
		r := &reactions[i]
		if _, inserted := t.inserted[r.Place]; t.inserted != nil && !inserted && !r.Forwarded {
			continue
		}
		event := journey.MailEvent("")
		switch r.Kind {
		case mail.ReactionOpened:
			event = journey.MailOpened
		case mail.ReactionClicked:
			event = journey.MailClicked
		}
		all = append(all, mailed{SendKey: r.SendKey, event: event, millis: r.TimeMillis, email: r.Email, place: r.Place,
			reaction: r.Kind, machine: r.Machine, own: r.Own, judged: r.Judged, first: r.First, forwarded: r.Forwarded, link: r.Link})
	}
	return all
}

// count writes what was counted.
func (x *reacting) count(ctx context.Context) error {
	if err := x.t.addCounts(ctx, x.counts, x.e.Stripe); err != nil {
		return fmt.Errorf("count what happened to mails of journeys: %w", err)
	}
	if err := x.t.addReactions(ctx, x.sums, x.e.Stripe); err != nil {
		return fmt.Errorf("count what happened to mails: %w", err)
	}
	return nil
}

// addressedAtOnce bounds the messages of which all recipients are read by one statement.
const addressedAtOnce = 16

// address finds the sends of events that name a message and an address. A mail's
// Message-ID is the same for all recipients of its message: of what others report, the
// address tells these apart. Case is folded here: databases fold ASCII alone, or by their
// locale. Most messages have one recipient or two, so the first two are read, by one
// statement. Of a message that has another recipient all short rows are read, 1,000 at most,
// again for each transaction: 16,000 rows a statement.
func (x *reacting) address(ctx context.Context, all []mailed) error {
	about := make(map[addressed][]*mailed)
	for i := range all {
		if m := &all[i]; m.Number == mail.AnyNumber && m.email != "" {
			key := addressed{m.Message, strings.ToLower(m.email)}
			about[key] = append(about[key], m)
		}
	}
	for _, by := range []struct {
		statement string
		atOnce    int
	}{{"sends_addresses_first", maxReactions}, {"sends_addresses", addressedAtOnce}} {
		messages := make(map[string]struct{})
		for key := range about {
			messages[key.message] = struct{}{}
		}
		for piece := range slices.Chunk(slices.Sorted(maps.Keys(messages)), by.atOnce) {
			err := x.t.each(ctx, named(rawQuery(x.t.store.d, by.statement), len(piece)), anys(piece), func(scan scanner) error {
				var k mail.SendKey
				var to string
				err := scan(&k.Message, &k.Number, &to)
				key := addressed{k.Message, strings.ToLower(to)}
				for _, m := range about[key] {
					m.SendKey = k
				}
				delete(about, key)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", by.statement, err)
			}
		}
	}
	return nil
}

// addressed is an address of a message, in lower case.
type addressed struct{ message, to string }

// read reads the rows of sends. Of a message alone those with the numbers 0 and 1: so
// it is known whether it has one. Of sends that are counted and no more it reads what
// they are counted under.
func (x *reacting) read(ctx context.Context, all []mailed) error {
	whole, counted := make(map[mail.SendKey]struct{}), make(map[mail.SendKey]struct{})
	for i := range all {
		keys, k := whole, all[i].SendKey
		if all[i].event == "" {
			keys = counted
		}
		switch {
		case k.Number != mail.AnyNumber:
			keys[k] = struct{}{}
		case all[i].email == "":
			keys[mail.SendKey{Message: k.Message}], keys[mail.SendKey{Message: k.Message, Number: 1}] = struct{}{}, struct{}{}
		}
	}
	maps.DeleteFunc(counted, func(k mail.SendKey, _ struct{}) bool { _, ok := whole[k]; return ok })
	if err := x.readKeys(ctx, counted, "sends_counted", x.scanCounted); err != nil {
		return err
	}
	return x.readKeys(ctx, whole, "sends_mailed", x.scanMailed)
}

// readKeys reads rows by a named statement.
func (x *reacting) readKeys(ctx context.Context, keys map[mail.SendKey]struct{}, statement string, read func(scanner) error) error {
	for piece := range slices.Chunk(slices.SortedFunc(maps.Keys(keys), mail.SendKey.Compare), maxReactions) {
		alone, together := byMessage(piece)
		messages := byNumber(alone)
		for _, number := range slices.Sorted(maps.Keys(messages)) {
			if err := x.readRows(ctx, statement, read, "number", "message", number, anys(messages[number])); err != nil {
				return err
			}
		}
		for _, message := range slices.Sorted(maps.Keys(together)) {
			if err := x.readRows(ctx, statement, read, "message", "number", message, anys(together[message])); err != nil {
				return err
			}
		}
	}
	return nil
}

// byMessage returns the keys whose message is there once, and the numbers of the
// others: a message to a thousand people has a statement, not one for each.
func byMessage(keys []mail.SendKey) (alone []mail.SendKey, together map[string][]int) {
	together = make(map[string][]int)
	for _, k := range keys {
		together[k.Message] = append(together[k.Message], k.Number)
	}
	for _, k := range keys {
		if len(together[k.Message]) == 1 {
			alone = append(alone, k)
			delete(together, k.Message)
		}
	}
	return alone, together
}

// readRows reads the rows that have one column in common, and another of some.
func (x *reacting) readRows(ctx context.Context, statement string, read func(scanner) error, one, other string, common any, some []any) error {
	text := strings.NewReplacer("$ONE", one, "$OTHER", other).Replace(rawQuery(x.t.store.d, statement))
	return x.t.each(ctx, named(text, len(some)), append([]any{common}, some...), read)
}

// scanCounted reads what a send is counted under, whose it is, and what was counted of it.
func (x *reacting) scanCounted(scan scanner) error {
	r := &mailedRow{counted: true}
	var metadata, clicks string
	err := scan(&r.Message, &r.Number, &r.part, &r.to, &r.tags, &metadata, &r.journey, &r.step, &r.variant, &clicks)
	r.campaign, r.clicks = mail.CampaignOf(metadata, r.tags), mail.ParseClicks(clicks)
	x.rows[r.SendKey] = r
	return err
}

// scanMailed reads all that decides what becomes of a reaction.
func (x *reacting) scanMailed(scan scanner) error {
	r, s := &mailedRow{}, x.t.store
	var person [2]sql.NullInt64
	var state, clicks, metadata string
	var updated int64
	err := scan(&r.Message, &r.Number, &r.part, &r.to, &r.tags, &metadata, &r.journey, &r.step, &r.variant, &person[0], &person[1], &state, s.instant(&updated),
		s.instant(&r.opened), s.instant(&r.humanOpened), s.instant(&r.clicked), s.instant(&r.humanClicked), &clicks)
	r.user = user.ID{Partition: int(person[0].Int64), Number: person[1].Int64}
	r.campaign = mail.CampaignOf(metadata, r.tags)
	r.clicks, r.waits = mail.ParseClicks(clicks), parseState(state) == mail.SendWaiting
	if parseState(state) == mail.SendSent {
		r.sentMillis = updated
	}
	x.rows[r.SendKey] = r
	return err
}

// find returns the row that something has happened to; false: none, or nobody knows
// which.
func (x *reacting) find(m *mailed) (*mailedRow, bool) {
	if m.Number != mail.AnyNumber || m.email != "" {
		r, ok := x.rows[m.SendKey]
		return r, ok
	}
	r, ok := x.rows[mail.SendKey{Message: m.Message}]
	_, several := x.rows[mail.SendKey{Message: m.Message, Number: 1}]
	return r, ok && !several
}

// take sets the first of reactions to sends of the place's own partition, and forwards
// the others to theirs. What is no opening and no click is only counted: for that it may
// stay where it is, unless it counts once.
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
		if m.event == "" {
			switch {
			case m.reaction.CountsOnce() && r.part != m.place.Partition && !m.forwarded:
				x.forward = append(x.forward, user.Forward{From: m.place.Partition, To: r.part, Items: reactionItem(m, r.to, false)})
			case r.tellsNew(m):
				x.sums.add(r.countedMail, m.reaction, m.millis)
			}
			m.Message = ""
			continue
		}
		if r.part != m.place.Partition {
			x.forward = append(x.forward, user.Forward{From: m.place.Partition, To: r.part, Items: reactionItem(m, r.to, false)})
			m.Message = ""
			continue
		}
		if !x.judge(m, r) {
			m.Message = ""
		}
	}
	return nil
}

// tellsNew reports whether what came back counts: some kinds do once for a send.
func (r *mailedRow) tellsNew(m *mailed) bool {
	if !m.reaction.CountsOnce() {
		return true
	}
	first := r.clicks.Count(m.reaction)
	r.changed = r.changed || first
	return first
}

// judge notes what happened in the row of its send, and reports whether a person did it.
// A click that is judged later is forwarded for that.
func (x *reacting) judge(m *mailed, r *mailedRow) bool {
	anybody, human := r.first(m.event)
	if !m.judged {
		if *anybody == 0 {
			*anybody, r.changed, m.first = m.millis, true, true
			x.counts = append(x.counts, rawCount(r, m.event, m.millis)...)
		}
		m.machine = m.machine || r.early(m)
		if m.own && m.link > 0 {
			r.clicks.Add(m.millis, m.link)
			r.changed = true
			if !m.machine {
				x.forward = append(x.forward, user.Forward{From: r.part, To: r.part, Items: reactionItem(m, r.to, true)})
				return false
			}
		}
	}
	sum := reactionSum{count: 1}
	if m.first {
		sum.firsts = 1
	}
	person := !m.machine && !(m.judged && r.clicks.Scanned(m.millis))
	if person && *human == 0 {
		*human, r.changed, sum.humanFirsts = m.millis, true, 1
		x.counts = append(x.counts, mailCount(r.journey, r.step, m.event, m.millis)...)
	}
	x.sums.addTo(reactionKey{countedMail: r.countedMail, hour: m.millis / millisPerHour, kind: m.reaction, link: linkOf(m.link), machine: !person}, sum)
	return person
}

// write writes the rows that have changed, in the order of their keys.
func (x *reacting) write(ctx context.Context, _ []mailed) error {
	s := x.t.store
	for _, key := range slices.SortedFunc(maps.Keys(x.rows), mail.SendKey.Compare) {
		r := x.rows[key]
		if !r.changed {
			continue
		}
		if r.counted {
			if _, err := x.t.changed(ctx, "send_count", r.clicks.Text(), r.Message, r.Number); err != nil {
				return err
			}
			continue
		}
		_, err := x.t.changed(ctx, "send_react", s.millisOrNull(r.opened), s.millisOrNull(r.humanOpened), s.millisOrNull(r.clicked), s.millisOrNull(r.humanClicked), r.clicks.Text(), r.Message, r.Number)
		if err != nil {
			return err
		}
	}
	return nil
}

// reactionItem is a reaction as an item of the log of its send's partition: its event
// once more, without a row, or mail.EventCounted. One of that partition itself comes to be judged.
func reactionItem(m *mailed, to string, judged bool) []byte {
	name := sluice.EventOpened
	switch m.event {
	case journey.MailClicked:
		name = sluice.EventClicked
	case "":
		name = mail.EventCounted
	}
	send := mail.Send{Message: m.Message, Number: m.Number}
	properties := `{"send":"` + send.ID() + `"`
	switch {
	case m.event == "":
		properties += `,"` + mail.KindMember + `":"` + m.reaction.String() + `"`
	case judged:
		properties += `,"judged":true,"link":` + strconv.Itoa(m.link)
	case m.own:
		properties += `,"own":true,"link":` + strconv.Itoa(m.link)
	}
	if m.first {
		properties += `,"first":true`
	}
	if m.machine {
		properties += `,"machine":true`
	}
	return sluice.AppendEvent(nil, &sluice.Event{
		Kind: sluice.KindMail, Origin: sluice.OriginOwnRepeat, TimeMillis: m.millis, Name: name, Email: to, Message: m.Message, Properties: properties + "}",
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
			err := x.t.each(ctx, named(rawQuery(x.t.store.d, "user_homes"), len(piece)), x.t.store.d.userArgs(part, piece...), func(scan scanner) error {
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
