package users

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Series of the users. The monthly series is a difference. A user is added on
// the first active day and taken off 30 days after the last one. So the sum up
// to a day is how many users were active in the 30 days that end with it.
const (
	NewUser   = "new_user"
	ActiveDay = "dau"
	MonthIn   = "mau_in"
	MonthOut  = "mau_out"
	monthDays = 30
	dayMillis = 24 * 60 * 60 * 1000
)

// done writes down what became of everybody.
func (u *Unit) done(ctx context.Context, store Reader) (Result, error) {
	c := u.result.Changes
	var changed []user.ID
	var gained []user.Key
	for id, x := range u.users {
		if !x.dirty {
			continue
		}
		changed = append(changed, id)
		if !x.row.MergedInto.IsZero() {
			continue
		}
		x.after = addresses(x.profile)
		for i, k := range x.after {
			if k, ok := k.Remembered(); ok && x.after[i] != x.before[i] {
				gained = append(gained, k)
			}
		}
	}
	if err := u.readLate(ctx, store, gained); err != nil {
		return Result{}, err
	}
	if err := u.eraseAddresses(ctx, store); err != nil {
		return Result{}, err
	}
	slices.SortFunc(changed, user.ID.Compare)
	for _, id := range changed {
		u.put(id, u.users[id])
	}
	for p, n := range u.numbers {
		if *n == u.read.Numbers[p] {
			continue
		}
		if c.Numbers == nil {
			c.Numbers = make(map[int]user.Numbers)
		}
		c.Numbers[p] = *n
	}
	u.settleKeys()
	for count, by := range u.counts {
		if count.Check() != nil {
			continue // a user active at the end of all times leaves the month after it
		}
		count.By = by
		u.result.Counts = append(u.result.Counts, count)
	}
	u.result.Facts = u.facts.all
	return u.result, nil
}

// eraseAddresses notes the addresses of an erased user as names of that user,
// except those that another user also has. Data known only by such a shared
// address may be about the other user.
func (u *Unit) eraseAddresses(ctx context.Context, db Reader) error {
	if len(u.erased) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(u.erased))
	if err := u.readLate(ctx, db, keys); err != nil {
		return err
	}
	for _, x := range u.users { // also a user who has got an address in this transaction
		if !x.gone && x.row.MergedInto.IsZero() {
			if p, err := x.look(); err == nil {
				delete(u.erased, addresses(p)[0])
			}
		}
	}
	for k := range u.erased {
		u.result.Changes.Erase = append(u.result.Changes.Erase, store.AddressErasure(k.Name))
		if written := asWritten(k.Name); written != k.Name {
			u.result.Changes.Erase = append(u.result.Changes.Erase, store.AddressErasure(written))
		}
	}
	return nil
}

// asWritten is an address with its domain as people write it. Events have it as their
// producers gave it, a profile as envelopes do, with labels that begin with xn--.
func asWritten(address string) string {
	local, domain, _ := strings.Cut(address, "@")
	written, err := mime.DomainToUnicode(domain)
	if err != nil || len(local)+len("@")+len(written) > sluice.MaxEmailBytes {
		return address
	}
	return local + "@" + written
}

// readLate reads the owners of keys that turn out to matter once all updates
// are applied. These are the states remembered for addresses that a user has
// got, and the other users who have an erased user's addresses. Updates that do
// neither cost no read.
func (u *Unit) readLate(ctx context.Context, store Reader, keys []user.Key) error {
	if len(keys) == 0 {
		return nil
	}
	more, err := read(ctx, store, user.Query{Keys: keys})
	if err != nil {
		return err
	}
	for k, ids := range more.ByKey {
		if _, known := u.keys[k]; !known {
			u.keys[k], u.read.ByKey[k] = ids, ids
		}
	}
	for id, row := range more.Users {
		if u.users[id] == nil {
			u.users[id] = &person{row: row}
		}
	}
	return nil
}

// mostBytes is how large a profile may be by what an operation changes in it (change). One
// that changes nothing there is not refused for the size that the profile has already: a
// user who is too large can be erased. What alias, identify or a merge adds is looked at
// where it is added.
func mostBytes(op user.Op) int {
	switch op {
	case user.OpGroup, user.OpSubscribe:
		return user.MaxProfileBytes + user.MaxConsentBytes
	case user.OpAlias, user.OpIdentify, user.OpMerge, user.OpAbsorb, user.OpDelete:
		return math.MaxInt
	}
	return user.MaxProfileBytes
}

// roomBytes is what a profile has beside what was there and what has come.
const roomBytes = 128

// put writes a user, and the user's addresses.
func (u *Unit) put(id user.ID, x *person) {
	row := user.Row{ID: id, UpdatedMillis: u.now, MergedInto: x.row.MergedInto}
	if row.MergedInto.IsZero() {
		for i, k := range x.after {
			if k != x.before[i] && k.Name != "" {
				u.facts.remember(x.profile)
				u.inherit(id, x, k)
				u.facts.inherited(id, x)
			}
		}
		room := roomBytes
		if !x.last.Op.OfEvent() {
			room += len(x.last.Body)
		}
		text := x.profile.Append(make([]byte, 0, len(x.row.Profile)+room))
		row.Profile = unsafe.String(unsafe.SliceData(text), len(text))
		most := user.MaxProfileBytes
		if u.careful { // each update was tried, and one of consent has more room
			most += user.MaxConsentBytes
		}
		if len(row.Profile) > most {
			u.full = true
			u.deadLetter(x.last, tooLarge(id, len(row.Profile)))
			return
		}
	}
	u.result.Changes.Put = append(u.result.Changes.Put, row)
	u.moveAddresses(id, x.before, x.after)
}

// settleKeys leaves one row of each key: what the last merge made of it. A key
// that was claimed here and is dropped again was never there.
func (u *Unit) settleKeys() {
	c := u.result.Changes
	if len(c.MoveKeys)+len(c.DropKeys) == 0 {
		return // nearly always: each was given once
	}
	added := make(map[user.Key]bool)
	for _, r := range c.AddKeys {
		added[r.Key] = true
	}
	moved := make(map[user.Key]user.ID)
	for _, r := range c.MoveKeys {
		moved[r.Key] = r.ID
	}
	c.MoveKeys = c.MoveKeys[:0]
	for k, id := range moved {
		if now := u.keys[k]; !added[k] && len(now) == 1 && now[0] == id {
			c.MoveKeys = append(c.MoveKeys, user.KeyRow{Key: k, ID: id})
		}
	}
	kept := c.AddKeys[:0]
	seen := make(map[user.Key]bool)
	for _, r := range c.AddKeys {
		if now := u.keys[r.Key]; len(now) == 1 && !seen[r.Key] {
			seen[r.Key] = true
			kept = append(kept, user.KeyRow{Key: r.Key, ID: now[0]})
		}
	}
	c.AddKeys = kept
}

// addressKeys are the addresses by which a user is found; empty: none.
type addressKeys [2]user.Key

func addresses(p *profile.Profile) (a addressKeys) {
	for i, f := range [...]struct {
		field string
		kind  user.KeyKind
	}{{"email", user.KeyEmail}, {"phone", user.KeyPhone}} {
		raw := p.Fields.Get(f.field)
		if raw == "" {
			continue
		}
		if raw[0] == '"' && !strings.Contains(raw, `\`) { // nearly always
			a[i] = user.Key{Kind: f.kind, Name: raw[1 : len(raw)-1]}
		} else if v, err := jsonscan.Scan(raw); err == nil && v.Kind == jsonscan.String {
			a[i] = user.Key{Kind: f.kind, Name: v.Text()}
		}
	}
	return a
}

// has reports whether a user has an address.
func has(p *profile.Profile, address user.Key) bool {
	a := addresses(p)
	return slices.Contains(a[:], address)
}

// moveAddresses notes what of a user's addresses has changed.
func (u *Unit) moveAddresses(id user.ID, before, after addressKeys) {
	c := u.result.Changes
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		if k, ok := before[i].Remembered(); ok {
			c.DropAddress = append(c.DropAddress, user.KeyRow{Key: before[i], ID: id})
			u.forget(k, id)
		}
		if after[i].Name != "" {
			c.AddAddress = append(c.AddAddress, user.KeyRow{Key: after[i], ID: id})
		}
	}
}

// forget drops what a user remembered for an address, once the user no longer
// has that address.
func (u *Unit) forget(k user.Key, id user.ID) {
	if ids, read := u.keys[k]; read && !slices.Contains(ids, id) {
		return
	}
	u.result.Changes.DropKeys = append(u.result.Changes.DropKeys, user.KeyRow{Key: k, ID: id})
	delete(u.keys, k)
}

// AddressesIn are the addresses that an attributes object sets, as profile.Check
// returns it.
func AddressesIn(body string) (a []user.Key) {
	if !strings.Contains(body, `"email"`) && !strings.Contains(body, `"phone"`) {
		return nil
	}
	m := jsonscan.Read(body)
	for m.Next() {
		switch {
		case m.Value.Kind != jsonscan.String:
		case m.Key == "email":
			a = append(a, user.Key{Kind: user.KeyEmail, Name: m.Value.Text()})
		case m.Key == "phone":
			a = append(a, user.Key{Kind: user.KeyPhone, Name: m.Value.Text()})
		}
	}
	return a
}

// keysOf returns a user's keys, and those of the users who were merged into it.
func keysOf(p *profile.Profile) (keys []user.Key) {
	if p.ExternalID != "" {
		keys = append(keys, user.Key{Kind: user.KeyExternal, Name: p.ExternalID})
	}
	for _, name := range p.Former {
		if _, ok := user.ParseID(name); !ok { // a number of ours is in no table of keys
			keys = append(keys, user.Key{Kind: user.KeyExternal, Name: name})
		}
	}
	for _, a := range p.Aliases {
		keys = append(keys, user.AliasKey(a.Label, a.Name))
	}
	return keys
}

// active counts a user once on a day of activity.
func (u *Unit) active(up *Update, p *profile.Profile) {
	day := up.TimeMillis / dayMillis
	last := p.ActiveDay
	if day <= last {
		return // or long ago: then it counts no more for that day
	}
	p.ActiveDay = day
	u.count(ActiveDay, up.App, day*dayMillis, 1)
	if last == 0 || day >= last+monthDays {
		u.count(MonthIn, "", day*dayMillis, 1)
	} else {
		u.count(MonthOut, "", (last+monthDays)*dayMillis, -1)
	}
	u.count(MonthOut, "", (day+monthDays)*dayMillis, 1)
}

func (u *Unit) count(name, app string, millis, by int64) {
	c := sluice.Count{Kind: sluice.KindSystem, Name: name, App: app, TimeMillis: millis - millis%dayMillis}
	if name == NewUser {
		c.TimeMillis = millis - millis%(60*60*1000)
	}
	u.counts[c] += by
}

// purchase is the body of an OpPurchase.
type purchase struct {
	currency string
	micros   int64 // of the currency, each
	quantity int64
}

func readPurchase(body string) purchase {
	b := purchase{quantity: 1}
	m := jsonscan.Read(body)
	for m.Next() {
		switch m.Key {
		case "currency":
			b.currency = strings.Clone(m.Value.Text())
		case "price":
			if f, err := strconv.ParseFloat(m.Value.Raw, 64); err == nil {
				b.micros = micros(f)
			}
		case "quantity":
			if n, err := strconv.ParseInt(m.Value.Raw, 10, 64); err == nil {
				b.quantity = n
			}
		}
	}
	return b
}

// micros is an amount in millionths, within what an int64 holds.
func micros(amount float64) int64 {
	m := math.Round(amount * 1e6)
	if m >= sluice.MaxCount {
		return sluice.MaxCount
	}
	if m <= -sluice.MaxCount {
		return -sluice.MaxCount
	}
	return int64(m)
}
