package transfer

import (
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"sluice"
	"sluice/jsonscan"
	"sluice/profile"
)

// userKeys are the members of a user's line that may say who he is; the first
// that is there does.
type userKeys struct {
	external, alias, email, phone, existing jsonscan.Value
}

func (k *userKeys) take(name string, v jsonscan.Value) bool {
	if v.Kind == jsonscan.Null {
		v = jsonscan.Value{}
	}
	switch name {
	case "external_id":
		k.external = v
	case "user_alias":
		k.alias = v
	case "email":
		k.email = v
	case "phone":
		k.phone = v
	case "_update_existing_only":
		k.existing = v
	default:
		return false
	}
	return true
}

// ParseUser reads a line of users as an update that sets attributes: an object
// as /users/track takes it. It names the user by external_id, user_alias, email
// or phone, and creates him unless it says _update_existing_only. Its texts
// share memory with the line. The time is the caller's.
func ParseUser(line string, u *sluice.UserUpdate) (err error) {
	*u = sluice.UserUpdate{Op: sluice.OpAttributes}
	var k userKeys
	m := jsonscan.Read(line)
	for m.Next() {
		if !k.take(m.Key, m.Value) && !nameFits(m.Key) {
			err = fmt.Errorf("name of attribute %.60q: want at most %d characters, none of them a control character", m.Key, profile.MaxNameRunes)
		}
	}
	if bad := m.Err(); bad != nil {
		return bad
	}
	if err != nil {
		return err
	}
	if u.ExistingOnly, err = k.existingOnly(); err != nil {
		return err
	}
	if u.Key, err = k.key(); err != nil {
		return err
	}
	u.Body, err = profile.Check(line)
	return err
}

func (k *userKeys) existingOnly() (bool, error) {
	if k.existing.Kind != jsonscan.None && k.existing.Kind != jsonscan.Bool {
		return false, errors.New("_update_existing_only: want true or false")
	}
	return k.existing.Raw == "true", nil
}

func (k *userKeys) key() (sluice.UserKey, error) {
	switch {
	case k.external.Kind == jsonscan.Number: // its digits
		if _, err := strconv.ParseInt(k.external.Raw, 10, 64); err != nil {
			return sluice.UserKey{}, errors.New("external_id: want a text, or a whole number of 64 bits")
		}
		return sluice.UserKey{Kind: sluice.KeyExternal, Name: k.external.Raw}, nil
	case k.external.Kind != jsonscan.None && k.external.Raw != `""`:
		name, err := keyText("external_id", k.external)
		return sluice.UserKey{Kind: sluice.KeyExternal, Name: name}, err
	case k.alias.Kind != jsonscan.None:
		return aliasKey(k.alias)
	case k.email.Kind != jsonscan.None:
		address, ok := profile.NormalEmail(k.email.Text())
		if !ok || k.email.Kind != jsonscan.String {
			return sluice.UserKey{}, fmt.Errorf("email %.60s is no e-mail address", k.email.Raw)
		}
		return sluice.UserKey{Kind: sluice.KeyEmail, Name: address}, nil
	case k.phone.Kind != jsonscan.None:
		number, ok := profile.NormalPhone(k.phone.Text())
		if !ok || k.phone.Kind != jsonscan.String {
			return sluice.UserKey{}, fmt.Errorf("phone %.60s is no number as E.164 writes it", k.phone.Raw)
		}
		return sluice.UserKey{Kind: sluice.KeyPhone, Name: number}, nil
	}
	return sluice.UserKey{}, errors.New("it does not say who it is: want external_id, user_alias, email or phone")
}

func aliasKey(v jsonscan.Value) (sluice.UserKey, error) {
	if v.Kind != jsonscan.Object {
		return sluice.UserKey{}, fmt.Errorf("user_alias is %s, want an object with alias_name and alias_label", v.Kind)
	}
	var label, name jsonscan.Value
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		switch m.Key {
		case "alias_label":
			label = m.Value
		case "alias_name":
			name = m.Value
		}
	}
	l, errL := keyText("alias_label", label)
	n, errN := keyText("alias_name", name)
	k := sluice.AliasKey(l, n)
	if utf8.RuneCountInString(k.Name) > sluice.MaxUserKeyRunes {
		return k, fmt.Errorf("user_alias: want at most %d characters together, quotes and backslashes counted twice", sluice.MaxUserKeyRunes-len(`["",""]`))
	}
	return k, errors.Join(errL, errN)
}

// keyText reads a text by which a user is called.
func keyText(field string, v jsonscan.Value) (string, error) {
	s := v.Text()
	if v.Kind != jsonscan.String || s == "" || !nameFits(s) {
		return "", fmt.Errorf("%s: want a text of 1 to %d characters, none of them a control character", field, profile.MaxNameRunes)
	}
	return s, nil
}

func nameFits(s string) bool {
	if len(s) > profile.MaxNameRunes && utf8.RuneCountInString(s) > profile.MaxNameRunes {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// UserCell appends a cell of a CSV of users as JSON. External ids and standard
// attributes that are texts stay texts; of custom ones numbers, true and false
// become such, all else is text. Of an alias, and of a standard attribute that is
// no text (a location, groups), the cell is its JSON.
func UserCell(dst []byte, column, cell string) []byte {
	if column != "external_id" && !profile.IsTextField(column) {
		v, err := jsonscan.Scan(cell)
		structured := profile.IsStandard(column) || column == "user_alias"
		if err == nil && v.Raw == cell && (v.Kind == jsonscan.Number || v.Kind == jsonscan.Bool || structured) {
			return append(dst, cell...)
		}
	}
	return appendJSONText(dst, cell)
}
