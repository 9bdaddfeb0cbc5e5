package users

import (
	"slices"

	"sluice/user"
)

// elsewhere sends an update of an address to where the address is taken in, if that is
// not here, and reports whether it did. Only there a user may be made who remembers it.
func (u *Unit) elsewhere(up *Update) bool {
	if _, address := up.Key.Remembered(); !address {
		return false
	}
	home := up.Key.Partition(u.partitions)
	if home == up.Place.Partition {
		return false
	}
	u.send(&up.Update, up.Place.Partition, home)
	return true
}

// reported reports whether others say what an update sets.
func reported(up *user.Update) bool { return up.Op == user.OpSubscribe && up.Name == user.Reported }

// ofEach reports whether an update of an address is about all who have it.
func ofEach(up *user.Update) bool {
	return up.Op == user.OpSubscribe || up.Op == user.OpGroup && up.App == user.EachOfAddress
}

// applyToAll applies an update of an address to each who has it. It reports
// whether there are several.
func (u *Unit) applyToAll(up *Update) bool {
	if _, address := up.Key.Remembered(); !address || len(u.keys[up.Key]) < 2 {
		return false
	}
	for _, id := range slices.Clone(u.keys[up.Key]) {
		one := *up
		one.Key = user.Key{Kind: user.KeyUser, Name: id.String()}
		u.apply(&one)
	}
	return true
}
