package sqlstore

import (
	"context"
	"fmt"
	"unicode/utf8"

	"sluice/user"
)

var _ user.Finder = (*Store)(nil)

// KeysFrom implements user.Finder. The keys of both tables begin with kind and name, so
// what begins with a text lies together.
func (s *Store) KeysFrom(ctx context.Context, kind user.KeyKind, prefix string, limit int) ([]user.KeyRow, error) {
	statement := ""
	switch kind {
	case user.KeyExternal, user.KeyAlias:
		statement = rawQuery(s.d, "user_keys_from")
	case user.KeyEmail, user.KeyPhone:
		statement = rawQuery(s.d, "user_addresses_from")
	default:
		return nil, fmt.Errorf("keys of kind %d are not looked for by their beginning", kind)
	}
	end, ok := afterPrefix(prefix)
	if !ok {
		return nil, nil
	}
	rows, err := list(ctx, s.d, s.reads, func(scan scanner, r *user.KeyRow) error {
		r.Key.Kind = kind
		return scan(&r.Key.Name, &r.ID.Partition, &r.ID.Number)
	}, statement, int(kind), prefix, end, limit)
	return rows, s.failed(err, "look for keys by their beginning in")
}

// afterPrefix returns the least text that is greater than all that begin with a prefix, in the
// order of code points, which all databases keep; false: there is none.
func afterPrefix(prefix string) (end string, ok bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if r++; r == 0xD800 { // surrogates are no characters
			r = 0xE000
		}
		if r <= utf8.MaxRune {
			return prefix + string(r), true
		}
	}
	return "", false
}
