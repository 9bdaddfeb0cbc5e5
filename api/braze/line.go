package braze

import (
	"sluice"
	"sluice/lib/jsonscan"
	"sluice/user"
)

// UserLine reads a line of an import of users: an attributes object as
// /users/track takes it. An alias that nobody has makes a user there, unless the
// line says _update_existing_only. The texts of the update share memory with the
// line; its time is the caller's.
func UserLine(raw string, u *user.Update) error {
	*u = user.Update{}
	if len(raw) > sluice.MaxElementBytes {
		return errTooLarge
	}
	if err := attributes(raw, u); err != nil {
		return err
	}
	if !NumbersFit(raw) {
		return errNumber
	}
	if u.Key.Kind == user.KeyAlias {
		u.ExistingOnly = false
		for m := jsonscan.Read(raw); m.Next(); {
			if m.Key == "_update_existing_only" {
				u.ExistingOnly = m.Value.Raw == "true"
			}
		}
	}
	return nil
}
