package users

import (
	"slices"
	"unicode/utf8"

	"sluice/user"
	"sluice/user/profile"
)

// remove erases a user. What is counted of that user stays counted.
func (u *Unit) remove(up *Update, id user.ID, x *person) {
	c := u.result.Changes
	u.facts.deleted(up, id)
	for _, k := range keysOf(x.profile) {
		c.DropKeys = append(c.DropKeys, user.KeyRow{Key: k, ID: id})
		for _, was := range slices.Concat(u.read.ByKey[k], u.took[id]) { // as the database may still have it
			c.DropKeys = append(c.DropKeys, user.KeyRow{Key: k, ID: was})
		}
		delete(u.keys, k)
	}
	c.Drop = append(c.Drop, id)
	u.erase(id.String(), x.profile)
	u.moveAddresses(id, x.before, addressKeys{})
	x.gone, x.dirty = true, false
}

// maxErasedRunes bounds a name that is erased: what the database keeps of one. External
// ids have no more.
const maxErasedRunes = 255

// erase notes the names that a user has in events, sends, dead letters and the audit log.
func (u *Unit) erase(id string, p *profile.Profile) {
	for _, name := range append([]string{id, p.ExternalID}, p.Former...) {
		if name != "" && utf8.RuneCountInString(name) <= maxErasedRunes {
			u.result.Changes.Erase = append(u.result.Changes.Erase, name)
		}
	}
	if address := addresses(p)[0]; address.Name != "" {
		u.erased[address] = true
	}
}

// orphan erases a user whose merge arrives too late: the user who should take
// it over was erased while the merge was on its way. Its keys still belong to
// that user, or to one in between.
//
// A database that has gone back may have lost the user who should take it over. Then it has
// lost the merge as well: whom it has still, or has merged again by now, is not erased.
func (u *Unit) orphan(up *Update) {
	p, err := profile.Parse(up.Body)
	if err != nil {
		u.deadLetter(up, err.Error())
		return
	}
	if !u.mergedAway(up.Name) {
		return
	}
	for _, k := range keysOf(p) {
		if _, owner := u.owner(k); owner != nil {
			continue // this user was made again under the same name
		}
		for _, was := range u.read.ByKey[k] {
			u.result.Changes.DropKeys = append(u.result.Changes.DropKeys, user.KeyRow{Key: k, ID: was})
		}
		delete(u.keys, k)
	}
	u.erase(up.Name, p)
}

// mergedAway reports whether a user of a number was merged into one who is no more.
func (u *Unit) mergedAway(number string) bool {
	id, ok := user.ParseID(number)
	if !ok || u.users[id] == nil || u.users[id].row.MergedInto.IsZero() {
		return false
	}
	_, end := u.find(id)
	return end == nil
}
