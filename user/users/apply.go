package users

import (
	"fmt"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// apply applies one update, or says where it goes.
func (u *Unit) apply(up *Update) {
	if u.repeated[up] || up.Op == user.OpSubscribe && u.elsewhere(up) || ofEach(&up.Update) && u.applyToAll(up) {
		return
	}
	id, x := u.target(up)
	switch {
	case up.Address.Name != "" && !u.meant(up, id, x):
		u.applyByAddress(up)
		return
	case x == nil, (up.Op == user.OpDelete || up.Op == user.OpMerge) && x.tookOver(&up.Update, id):
		if !up.Op.OfEvent() && up.Op != user.OpMailed && !reported(&up.Update) {
			u.result.Ignored++
		}
		if up.Op == user.OpAbsorb {
			u.orphan(up)
		}
		return
	case id.Partition != up.Place.Partition:
		u.forward(up, id)
		return
	case up.Op == user.OpMailed:
		u.facts.mailed(up, id)
		return
	case up.Op.OfJourney():
		u.facts.ofJourney(up, id)
		return
	}
	p, err := x.look()
	if err != nil {
		u.deadLetter(up, err.Error())
		return
	}
	if bytes := u.sizeWith(p, func(c *profile.Profile) { u.change(c, up) }); bytes > mostBytes(up.Op) {
		u.deadLetter(up, tooLarge(id, bytes))
		return
	}
	made := x.last == up
	u.facts.begin(up, x)
	u.change(p, up)
	switch up.Op {
	case user.OpAttributes, user.OpGroup, user.OpSubscribe:
	case user.OpSeen, user.OpBought:
		u.active(up, p)
	case user.OpEvent:
		u.event(up, sluice.KindCustom, id, p)
	case user.OpPurchase:
		u.event(up, sluice.KindPurchase, id, p)
	case user.OpAlias:
		u.alias(up, id, x)
	case user.OpIdentify:
		u.identify(up, id, x)
	case user.OpMerge:
		u.merge(up, id, x)
	case user.OpAbsorb:
		u.absorb(up, id, x)
	case user.OpDelete:
		u.remove(up, id, x)
		return
	default:
		u.deadLetter(up, "an operation that this program does not know; was it written by a newer one?")
		return
	}
	x.dirty, x.last = true, up
	u.facts.end(up, made, id, x)
}

// change applies what an update does to a profile and to nothing else.
func (u *Unit) change(p *profile.Profile, up *Update) {
	switch up.Op {
	case user.OpAttributes:
		if up.App == "" || p.Makes(up.App, up.TimeMillis) {
			p.SetAttributes(up.Body, up.TimeMillis)
		}
	case user.OpEvent, user.OpSeen:
		p.CountEvent(up.Name, up.TimeMillis)
	case user.OpPurchase, user.OpBought:
		b := readPurchase(up.Body)
		p.CountPurchase(up.Name, b.currency, b.micros, b.quantity, up.TimeMillis)
	case user.OpGroup:
		p.ChooseGroup(up.Name, up.Body == "subscribed", up.TimeMillis, u.now)
	case user.OpSubscribe:
		p.Subscribe(up.Body, up.TimeMillis, reported(&up.Update), u.now)
	}
}

// sizeWith returns how many bytes a profile would have after a change, if each
// is tried; else 0. The profile stays as it is.
func (u *Unit) sizeWith(p *profile.Profile, change func(*profile.Profile)) int {
	if !u.careful {
		return 0
	}
	return u.triedSize(p, change)
}

func (u *Unit) triedSize(p *profile.Profile, change func(*profile.Profile)) int {
	c := p.Clone()
	change(c)
	u.scratch = c.Append(u.scratch[:0])
	return len(u.scratch)
}

func tooLarge(id user.ID, bytes int) string {
	return fmt.Sprintf("the profile of user %s would have %d bytes, at most %d are allowed: remove attributes first", id, bytes, user.MaxProfileBytes)
}

// target returns whom an update is about, nil if nobody. A user whom it creates
// is created.
func (u *Unit) target(up *Update) (id user.ID, x *person) {
	if up.Key.Kind == user.KeyUser {
		id, ok := user.ParseID(up.Key.Name)
		if !ok {
			return id, nil
		}
		return u.find(id)
	}
	if id, x = u.owner(up.Key); x == nil && up.Address.Name == "" && creates(up) {
		id, x = u.create(up)
	}
	return id, x
}

// meant reports whether an update that has an address is about the user of its
// key. Of one of another partition that is known there.
func (u *Unit) meant(up *Update, id user.ID, x *person) bool {
	if x == nil || up.IfGone || id.Partition != up.Place.Partition {
		return x != nil
	}
	p, err := x.look()
	if err != nil || !has(p, up.Address) {
		return false
	}
	if p.ExternalID != "" {
		return true // this user was written last
	}
	_, other := u.owner(up.Address)
	return other == nil || other.profile == nil || other.profile.ExternalID == ""
}

// applyByAddress applies an update to the user who has its address, where that
// is taken in.
func (u *Unit) applyByAddress(up *Update) {
	by := *up
	by.Key, by.Address, by.IfGone = up.Address, user.Key{}, false
	if home := by.Key.Partition(u.partitions); home != by.Place.Partition {
		u.send(&by.Update, by.Place.Partition, home)
		return
	}
	u.apply(&by)
}

// creates reports whether an update creates a user that is not there.
func creates(up *Update) bool {
	switch up.Op {
	case user.OpAttributes, user.OpEvent, user.OpPurchase:
		return !up.ExistingOnly
	case user.OpAlias: // of itself: a user who has nothing else
		return up.Key.Kind == user.KeyAlias && up.Key.Name == up.Body
	case user.OpGroup, user.OpSubscribe:
		_, address := up.Key.Remembered()
		return address && !up.ExistingOnly
	}
	return false
}

// owner returns the user who has a key. Of several who have an address, it
// returns one with an external id before one without, then the one who was
// written last.
func (u *Unit) owner(k user.Key) (best user.ID, found *person) {
	known := false
	for _, id := range u.keys[k] {
		id, x := u.find(id)
		if x == nil {
			continue
		}
		// A user that cannot be read still exists: its key belongs to nobody
		// else, and what arrives for it becomes a dead letter.
		p, err := x.look()
		switch named := err == nil && p.ExternalID != ""; {
		case found == nil, named && !known, named == known && x.row.UpdatedMillis > found.row.UpdatedMillis:
			best, found, known = id, x, named
		}
	}
	return best, found
}

// create makes a user who has nothing but the key.
func (u *Unit) create(up *Update) (user.ID, *person) {
	n := u.numbers[up.Place.Partition]
	n.User++
	id := user.ID{Partition: up.Place.Partition, Number: n.User}
	x := u.room()
	p := x.profile
	p.CreatedMillis = u.now
	x.row.ID, x.dirty, x.last = id, true, up
	u.users[id] = x
	switch up.Key.Kind {
	case user.KeyExternal:
		p.ExternalID = up.Key.Name
		u.claim(up.Key, id)
	case user.KeyAlias:
		if a, ok := aliasOf(up.Key.Name); ok {
			p.AddAlias(a)
		}
		u.claim(up.Key, id)
	case user.KeyEmail:
		p.Fields.Set("email", profile.Quoted(up.Key.Name))
		u.keys[up.Key] = append(u.keys[up.Key], id)
	case user.KeyPhone:
		p.Fields.Set("phone", profile.Quoted(up.Key.Name))
		u.keys[up.Key] = append(u.keys[up.Key], id)
	}
	if k, ok := up.Key.Remembered(); ok && (up.Op == user.OpGroup || up.Op == user.OpSubscribe) {
		u.claim(k, id)
	}
	app := up.App
	if up.Op == user.OpGroup {
		app = "" // it is no app
	}
	u.count(NewUser, app, u.now, 1)
	return id, x
}

// inherit gives a user who has got an address the states that were set for it
// when nobody had it: of mail, and in groups. A state that the user already has stays,
// unless the other one was set later: of mail any, in a group that of who has left it.
func (u *Unit) inherit(id user.ID, x *person, address user.Key) {
	k, _ := address.Remembered()
	from, owner := u.owner(k)
	if owner == nil || from == id || owner.profile == nil {
		return
	}
	x.profile.GroupsFrom(owner.profile)
	x.profile.EmailStateFrom(owner.profile)
}

// claim gives a key to a user. The former owner no longer exists.
func (u *Unit) claim(k user.Key, id user.ID) {
	c := u.result.Changes
	if len(u.keys[k]) > 0 {
		c.MoveKeys = append(c.MoveKeys, user.KeyRow{Key: k, ID: id})
	} else {
		c.AddKeys = append(c.AddKeys, user.KeyRow{Key: k, ID: id})
	}
	if len(u.ids) == cap(u.ids) {
		u.ids = make([]user.ID, 0, roomUsers)
	}
	u.ids = append(u.ids, id)
	n := len(u.ids)
	u.keys[k] = u.ids[n-1 : n : n]
}

// roomUsers is for how many new users room is made at once.
const roomUsers = 64

// born is a user who was not there, and the new profile.
type born struct {
	person
	its profile.Profile
}

// room makes a user with an empty profile.
func (u *Unit) room() *person {
	if len(u.born) == cap(u.born) {
		u.born = make([]born, 0, roomUsers)
	}
	u.born = append(u.born, born{})
	b := &u.born[len(u.born)-1]
	b.profile = &b.its
	return &b.person
}

// event keeps an event, beside its count in the profile.
func (u *Unit) event(up *Update, kind sluice.EventKind, id user.ID, p *profile.Profile) {
	u.active(up, p)
	u.result.Events = append(u.result.Events, store.StoredEvent{Place: up.Place, Event: sluice.Event{
		Kind: kind, TimeMillis: up.TimeMillis, Name: up.Name, App: up.App, User: NameOf(id, p), Properties: up.Body,
	}})
}

// alias gives a user another name, unless it is somebody's.
func (u *Unit) alias(up *Update, id user.ID, x *person) {
	k := user.Key{Kind: user.KeyAlias, Name: up.Body}
	a, ok := aliasOf(up.Body)
	_, owner := u.owner(k)
	if owner != nil || !ok {
		return
	}
	if bytes := u.sizeWith(x.profile, func(c *profile.Profile) { c.AddAlias(a) }); bytes > user.MaxProfileBytes {
		u.deadLetter(up, tooLarge(id, bytes))
	} else if x.profile.AddAlias(a) {
		u.claim(k, id)
	}
}

// identify gives a user an external id, or merges the user into the owner of
// that id.
func (u *Unit) identify(up *Update, id user.ID, x *person) {
	k := user.Key{Kind: user.KeyExternal, Name: up.Name}
	to, owner := u.owner(k)
	switch {
	case owner == x || x.profile.ExternalID != "": // the user is identified already
	case owner == nil:
		if bytes := u.sizeWith(x.profile, func(c *profile.Profile) { c.ExternalID = up.Name }); bytes > user.MaxProfileBytes {
			u.deadLetter(up, tooLarge(id, bytes))
			return
		}
		x.profile.ExternalID = up.Name
		u.claim(k, id)
	default:
		p, err := owner.look()
		if err != nil {
			u.deadLetter(up, err.Error())
			return
		}
		if sharesLabel(p, x.profile) {
			u.result.Ignored++ // Braze does not combine them: a user has one alias of a label
			return
		}
		goes := x.profile
		if up.Body == "none" {
			goes = &profile.Profile{Aliases: goes.Aliases, Former: goes.Former, Merged: goes.Merged}
		}
		u.hand(up, id, x, goes, to, owner)
	}
}

// sharesLabel reports whether two users have aliases of one label.
func sharesLabel(p, other *profile.Profile) bool {
	return slices.ContainsFunc(other.Aliases, func(a profile.Alias) bool {
		_, has := slices.BinarySearchFunc(p.Aliases, a.Label, func(own profile.Alias, label string) int { return strings.Compare(own.Label, label) })
		return has
	})
}

func (u *Unit) merge(up *Update, id user.ID, x *person) {
	k, ok := MergeKey(up.Name)
	if !ok {
		u.deadLetter(up, "it does not say whom to merge into")
		return
	}
	to, owner := u.owner(k)
	if k.Kind == user.KeyUser {
		if to, ok = user.ParseID(k.Name); ok {
			to, owner = u.find(to)
		}
	}
	home := k.Partition(u.partitions)
	switch {
	case owner == nil && k.Kind != user.KeyUser && up.Body == "" && home != up.Place.Partition:
		again := up.Update
		again.Key, again.Body = user.Key{Kind: user.KeyUser, Name: id.String()}, user.MergeAgain
		u.send(&again, up.Place.Partition, home) // from where it comes back
	case owner == nil || owner == x:
		u.result.Ignored++
	default:
		u.hand(up, id, x, x.profile, to, owner)
	}
}

// hand merges x into another user, with what moves to that one: x becomes a
// tombstone, and its keys become the other's. Where both together are too
// large, both stay as they are. Of one of another partition that is judged by what
// is known here, with what this unit hands over to it; if that one has grown since, absorb
// refuses it.
func (u *Unit) hand(up *Update, id user.ID, x *person, goes *profile.Profile, to user.ID, other *person) {
	keys := keysOf(goes)
	goes = goes.Clone()
	goes.AddFormer(id.String())
	if goes.ExternalID != "" {
		goes.AddFormer(goes.ExternalID)
	}
	if up.Op == user.OpMerge {
		goes.MergeAliases()
	}
	p, err := other.look()
	if err != nil {
		u.deadLetter(up, err.Error())
		return
	}
	here, tried, text := to.Partition == up.Place.Partition, u.careful, ""
	if !here { // nobody tries again with care if that one gets too large
		text = string(goes.Append(nil))
		h := u.expected(to, other)
		p, tried = h.profile, h.bytes+len(text) > user.MaxProfileBytes
	}
	if why := u.apart(to, p, goes, tried); why != "" {
		u.deadLetter(up, why)
		return
	}
	c := u.result.Changes
	for _, k := range keys {
		c.MoveKeys = append(c.MoveKeys, user.KeyRow{Key: k, ID: to})
		u.keys[k] = []user.ID{to}
	}
	x.row.MergedInto = to
	u.facts.merged(up, id, to)
	u.took[to] = append(append(u.took[to], id), u.took[id]...)
	if here {
		u.facts.remember(other.profile)
		other.profile.Merge(goes)
		other.dirty, other.last = true, up
		u.facts.tookIn(up, to, other, id.String())
		return
	}
	u.handed[to].take(goes, len(text))
	if !u.read.Users[to].ID.IsZero() {
		c.Stay = append(c.Stay, to) // to may be merged or erased at this moment
	} // else this transaction makes it: nobody else knows it, and no row of it can be locked
	took := *up
	took.Op, took.Key = user.OpAbsorb, user.Key{Kind: user.KeyUser, Name: to.String()}
	took.Name, took.Body = id.String(), text
	u.forward(&took, to)
}

// handed is a user of another partition whom others are merged into in this transaction.
type handed struct {
	profile *profile.Profile // as it will be with them
	bytes   int              // of it, at most
	last    *Update          // that had changed the user, when this was made
}

// expected returns a user of another partition, who was looked at, with all that this unit
// has handed over.
func (u *Unit) expected(to user.ID, x *person) *handed {
	h := u.handed[to]
	if h != nil && h.last == x.last {
		return h
	}
	p := x.profile.Clone()
	if h != nil {
		p.Merge(h.profile)
	}
	u.scratch = p.Append(u.scratch[:0])
	h = &handed{p, len(u.scratch), x.last}
	u.handed[to] = h
	return h
}

// take adds one that is handed over, with so many bytes.
func (h *handed) take(goes *profile.Profile, bytes int) {
	h.profile.Merge(goes)
	if h.bytes += bytes; h.bytes > user.MaxProfileBytes { // of what both have one is kept
		h.bytes = len(h.profile.Append(nil))
	}
}

// absorb is the other half of a merge.
func (u *Unit) absorb(up *Update, id user.ID, x *person) {
	other, err := profile.Parse(up.Body)
	if err != nil {
		u.deadLetter(up, err.Error())
		return
	}
	if why := u.apart(id, x.profile, other, u.careful); why != "" {
		u.deadLetter(up, why)
		return
	}
	u.facts.remember(x.profile)
	x.profile.Merge(other)
	u.facts.tookIn(up, id, x, up.Name)
	// The user it was sent to may have been merged into this one on the way.
	for _, k := range keysOf(other) {
		if _, owner := u.owner(k); owner == x && u.keys[k][0] != id {
			u.result.Changes.MoveKeys = append(u.result.Changes.MoveKeys, user.KeyRow{Key: k, ID: id})
			u.keys[k] = []user.ID{id}
		}
	}
}

// apart says why one profile cannot take in another, or "". Their size is looked at if it
// is tried.
func (u *Unit) apart(id user.ID, p, other *profile.Profile, tried bool) string {
	if n := len(p.Former) + len(other.Former); n > profile.MaxFormer {
		return fmt.Sprintf("user %s would have %d names of users who were merged into it, at most %d are allowed: its erasure must find them all", id, n, profile.MaxFormer)
	}
	if !tried {
		return ""
	}
	if bytes := u.triedSize(p, func(c *profile.Profile) { c.Merge(other) }); bytes > user.MaxProfileBytes {
		return tooLarge(id, bytes)
	}
	return ""
}

// tookOver reports whether an update named another user, who was merged into this
// one, the user of an id. That user no longer exists: a deletion or a merge of it
// must not take the one who stays. An alias that was taken over by OpIdentify is a name of
// this user.
//
// A deletion by an alias that comes from another log says by which. The merge may be on
// its way to here, while the alias leads here already: so only an alias that the user has
// by now deletes anybody.
func (x *person) tookOver(up *user.Update, id user.ID) bool {
	p, err := x.look()
	k := up.Key
	switch {
	case err != nil:
		return false // the deletion becomes a dead letter
	case k.Kind == user.KeyUser && up.Op == user.OpDelete && up.Name != "":
		a, ok := aliasOf(up.Name)
		return !ok || !slices.Contains(p.Aliases, a) || slices.Contains(p.Merged, a)
	case k.Kind == user.KeyUser:
		return k.Name != id.String()
	case k.Kind == user.KeyExternal:
		return k.Name != p.ExternalID
	}
	a, ok := aliasOf(k.Name)
	return ok && k.Kind == user.KeyAlias && slices.Contains(p.Merged, a)
}

// deadLetter makes a dead letter of an update.
func (u *Unit) deadLetter(up *Update, reason string) {
	u.result.Dead = append(u.result.Dead, Dead{up, reason})
}

// forward sends an update to the log of a user of another partition. One that
// would make the user says by which key, since the user may be erased before it
// arrives. So a user who is deleted and made again at once is not lost. One
// that would not make the user is about that id alone: a second deletion must
// not meet a user who was made again.
func (u *Unit) forward(up *Update, id user.ID) {
	out := up.Update
	if out.Address.Name == "" && out.Key.Kind != user.KeyUser && creates(up) {
		out.Address, out.IfGone = out.Key, true
	}
	if out.Op == user.OpDelete && out.Key.Kind == user.KeyAlias {
		out.Name = out.Key.Name // tookOver
	}
	out.Key = user.Key{Kind: user.KeyUser, Name: id.String()}
	u.send(&out, up.Place.Partition, id.Partition)
}

// send sends an update from a partition's log to another's.
func (u *Unit) send(up *user.Update, from, to int) {
	// A restored database must not give out numbers that the logs have seen: the
	// reader raises them to what the logs have.
	n := u.numbers[from]
	n.Forward = user.NextForward(n.Forward, u.now)
	u.result.Changes.Forward = append(u.result.Changes.Forward, user.Forward{From: from, To: to, ID: n.Forward, Items: user.AppendUpdate(nil, up)})
}

// NameOf returns what events and sends call a user: the external id, if it fits
// there.
func NameOf(id user.ID, p *profile.Profile) string {
	if p.ExternalID != "" && len(p.ExternalID) <= sluice.MaxReferenceBytes {
		return p.ExternalID
	}
	return id.String()
}

// aliasOf reads the name of an alias's key.
func aliasOf(name string) (profile.Alias, bool) {
	var parts []string
	e := jsonscan.ReadArray(name)
	for e.Next() {
		parts = append(parts, e.Value.Text())
	}
	if e.Err() != nil || len(parts) != 2 {
		return profile.Alias{}, false
	}
	return profile.Alias{Label: parts[0], Name: parts[1]}, true
}
