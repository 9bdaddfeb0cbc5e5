package braze

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/profile"
)

// maxNameRunes bounds external ids, aliases and the names of attributes.
const maxNameRunes = profile.MaxNameRunes

// errNoUser is the text that clients look for where an object names nobody.
const errNoUser complaint = "'external_id' or 'braze_id' or 'user_alias' is required"

// invalid says that a field has a value that it cannot have.
func invalid(field, want string) error {
	return &profile.FieldError{Field: field, Want: want}
}

// object is the members of an object of a call that say whom it is about, and
// how. Of a member that occurs twice the last one counts, and null is none.
type object struct {
	external, alias, brazeID, email, phone, existing jsonscan.Value
}

// take takes a member, and reports whether it is one of these. Of attributes,
// email and phone are that as well.
func (o *object) take(name string, v jsonscan.Value) bool {
	if v.Kind == jsonscan.Null {
		v = jsonscan.Value{}
	}
	switch name {
	case "external_id":
		o.external = v
	case "user_alias":
		o.alias = v
	case "braze_id":
		o.brazeID = v
	case "email":
		o.email = v
	case "phone":
		o.phone = v
	case "_update_existing_only":
		o.existing = v
	default:
		return false
	}
	return true
}

// user fills in which user an update is about, and whether it creates that
// user.
func (o *object) user(u *user.Update) (err error) {
	existing, said, err := flag("_update_existing_only", o.existing)
	if err != nil {
		return err
	}
	u.ExistingOnly = existing
	switch {
	case o.external.Kind != jsonscan.None && o.external.Raw != `""`:
		u.Key, err = externalKey(o.external)
	case o.alias.Kind != jsonscan.None:
		u.Key, err = aliasKey(o.alias)
		u.ExistingOnly = existing || !said
	case o.brazeID.Kind != jsonscan.None:
		u.Key, err = brazeKey(o.brazeID)
		u.ExistingOnly = true // nobody gets a number that was made up
	case o.email.Kind != jsonscan.None && o.email.Raw != `""`:
		u.Key, err = emailKey(o.email)
	case o.phone.Kind != jsonscan.None:
		u.Key, err = phoneKey(o.phone)
	default:
		err = errNoUser
	}
	return err
}

// UserOf returns whom the members of an object name: external_id, user_alias, braze_id,
// email or phone. Other members are passed over.
func UserOf(members map[string]jsonscan.Value) (user.Key, error) {
	var o object
	for name, v := range members {
		o.take(name, v)
	}
	var u user.Update
	err := o.user(&u)
	return u.Key, err
}

// flag reads a boolean that may be absent.
func flag(field string, v jsonscan.Value) (is, said bool, err error) {
	switch {
	case v.Kind == jsonscan.None:
		return false, false, nil
	case v.Kind == jsonscan.Bool:
		return v.Raw == "true", true, nil
	}
	return false, false, invalid(field, "true or false")
}

// externalKey reads an external id: a text, or a whole number of 64 bits, whose
// digits are the text.
func externalKey(v jsonscan.Value) (user.Key, error) {
	name, err := textOrInteger("external_id", v)
	if err == nil && name == "" {
		err = errNoUser
	}
	return user.Key{Kind: user.KeyExternal, Name: name}, err
}

// textOrInteger reads what clients send as either.
func textOrInteger(field string, v jsonscan.Value) (string, error) {
	if v.Kind == jsonscan.Number {
		if _, err := strconv.ParseInt(v.Raw, 10, 64); err != nil {
			return "", invalid(field, "a text, or a whole number of 64 bits")
		}
		return v.Raw, nil
	}
	return name(field, v)
}

// name reads a text of at most maxNameRunes characters without control
// characters. It names something, and is a key in databases and files.
func name(field string, v jsonscan.Value) (string, error) {
	if v.Kind != jsonscan.String {
		return "", invalid(field, "a text")
	}
	s := v.Text()
	if !nameFits(s) {
		return "", invalid(field, "at most 255 characters, none of them a control character")
	}
	return s, nil
}

// nameFits is about valid UTF-8.
func nameFits(s string) bool {
	if len(s) > maxNameRunes && utf8.RuneCountInString(s) > maxNameRunes {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == 0x7f {
			return false
		} else if c >= utf8.RuneSelf {
			for _, r := range s[i:] {
				if unicode.IsControl(r) {
					return false
				}
			}
			return true
		}
	}
	return true
}

// aliasKey reads {"alias_name": ..., "alias_label": ...}. Other members are
// passed over.
func aliasKey(v jsonscan.Value) (user.Key, error) {
	if v.Kind != jsonscan.Object {
		return user.Key{}, invalid("user_alias", "an object with alias_name and alias_label")
	}
	a := aliasIn(v)
	return aliasOf(a.label, a.called)
}

// aliasParts are the members of an object that names an alias, and the external_id
// that may stand beside it.
type aliasParts struct{ external, label, called jsonscan.Value }

// aliasIn reads such an object. Clients that name users by {"user_alias": {...}} do so
// in lists of aliases too: there the alias is one level deeper.
func aliasIn(v jsonscan.Value) (a aliasParts) {
	var deeper jsonscan.Value
	form{"external_id": &a.external, "alias_label": &a.label, "alias_name": &a.called, "user_alias": &deeper}.read(v.Raw)
	if deeper.Kind == jsonscan.Object && a.label.Kind == jsonscan.None && a.called.Kind == jsonscan.None {
		form{"alias_label": &a.label, "alias_name": &a.called}.read(deeper.Raw)
	}
	return a
}

func aliasOf(label, called jsonscan.Value) (user.Key, error) {
	l, err := name("alias_label", label)
	if err != nil {
		return user.Key{}, err
	}
	n, err := name("alias_name", called)
	if err != nil {
		return user.Key{}, err
	}
	if l == "" || n == "" {
		return user.Key{}, invalid("user_alias", "an alias_name and an alias_label that are not empty")
	}
	k := user.AliasKey(l, n)
	if utf8.RuneCountInString(k.Name) > user.MaxKeyRunes {
		return k, invalid("user_alias", fmt.Sprintf("at most %d characters together, quotes and backslashes counted twice", user.MaxKeyRunes-7))
	}
	return k, nil
}

func brazeKey(v jsonscan.Value) (user.Key, error) {
	k := user.Key{Kind: user.KeyUser, Name: v.Text()}
	if _, ok := user.ParseID(k.Name); !ok || v.Kind != jsonscan.String {
		return k, invalid("braze_id", "an id that this server has given: 24 hexadecimal digits")
	}
	return k, nil
}

func emailKey(v jsonscan.Value) (user.Key, error) {
	address, ok := profile.NormalEmail(v.Text())
	if !ok || v.Kind != jsonscan.String {
		return user.Key{}, invalid("email", "")
	}
	return user.Key{Kind: user.KeyEmail, Name: address}, nil
}

func phoneKey(v jsonscan.Value) (user.Key, error) {
	number, ok := profile.NormalPhone(v.Text())
	if !ok || v.Kind != jsonscan.String {
		return user.Key{}, invalid("phone", "a number as E.164 writes it")
	}
	return user.Key{Kind: user.KeyPhone, Name: number}, nil
}
