package braze

import (
	"sluice"
	"sluice/lib/jsonscan"
	"sluice/user"
)

// UserLine reads a line of an import of users: an attributes object as
// /users/track takes it. An alias that nobody has makes a user there, unless the
// line says _update_existing_only. The texts of the update share memory with the
// line; its time is the caller's. A line with one wrong attribute is refused.
func UserLine(raw string, u *user.Update) error {
	*u = user.Update{}
	if len(raw) > sluice.MaxElementBytes {
		return errTooLarge
	}
	switch dropped, err := attributes(raw, u); {
	case err != nil:
		return err
	case len(dropped) > 0: // the file is mended, and the line imported again
		return dropped[0]
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
