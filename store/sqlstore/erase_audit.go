package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sluice/store"
)

// eraseAuditRows is how many entries of the audit log are looked at at once.
const eraseAuditRows = 2000

// erasedMark stands in the place of what named somebody.
const erasedMark = "erased"

// EraseAudit implements store.KeepStore.
func (s *Store) EraseAudit(ctx context.Context, names []store.Erasure, afterID string) (erased int, next string, err error) {
	if len(names) == 0 || len(names) > store.MaxErasures {
		return 0, "", fmt.Errorf("erase %d users at once: want 1 to %d", len(names), store.MaxErasures)
	}
	rows, err := list(ctx, s.d, s.reads, func(scan scanner, e *store.AuditEntry) error {
		return scan(&e.ID, s.instant(&e.TimeMillis), &e.Path, &e.Detail, &e.Before, &e.After)
	}, rawQuery(s.d, "audit_after"), afterID, eraseAuditRows)
	if err != nil {
		return 0, "", s.failed(err, "look for users in the audit log of")
	}
	if len(rows) == eraseAuditRows {
		next = rows[len(rows)-1].ID
	}
	until := newErased(names)
	var found []store.AuditEntry
	for _, e := range rows {
		path, named := until.pathWithout(e.Path, e.TimeMillis)
		for _, text := range []string{e.Detail, e.Before, e.After} {
			named = named || until.mentioned(text, e.TimeMillis)
		}
		if !named {
			continue
		}
		e.Path, e.Detail, e.Before, e.After = path, erasedMark, "", ""
		found = append(found, e)
	}
	if len(found) == 0 {
		return 0, next, nil
	}
	err = s.write(ctx, func(tx *txn) error {
		for i := range found {
			if err := tx.exec(ctx, "audit_erase", found[i].Path, found[i].Detail, found[i].Before, found[i].After, found[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	return len(found), next, s.failed(err, "erase users from the audit log of")
}

// personMembers are under which a body or a query of the API names users. Their names are
// looked for nowhere else: a user may be called as anything is, "v1" or "marketing", and
// nobody is to take things out of the audit log by the deletion of a user.
var personMembers = []string{
	"external_id", "external_ids", "external_user_id", "external_user_ids", "user", "users", "user_id", "user_ids", "braze_id", "braze_ids", "recipient", "recipients",
}

// pathWithout returns a path of a request, with its query, without the segments and
// values that name one of them.
func (e erased) pathWithout(path string, millis int64) (without string, named bool) {
	bare, query, asks := strings.Cut(path, "?")
	clean := func(raw, under string, decode func(string) (string, error)) string {
		text, err := decode(raw)
		if err != nil {
			text = raw // it was cut in an escape
		}
		if !e.named(text, under, millis) {
			return raw
		}
		named = true
		return erasedMark
	}
	under := ""
	segments := strings.Split(bare, "/")
	for i, s := range segments { // /v1/users/ID
		segments[i], under = clean(s, under, url.PathUnescape), s
	}
	without = strings.Join(segments, "/")
	if !asks {
		return without, named
	}
	pairs := strings.Split(query, "&")
	for i, p := range pairs {
		if name, value, ok := strings.Cut(p, "="); ok {
			pairs[i] = name + "=" + clean(value, name, url.QueryUnescape)
		}
	}
	return without + "?" + strings.Join(pairs, "&"), named
}

// named reports whether a value that stands under a member names one of them: by its
// address, anywhere in it, or as a user, where users are named.
func (e erased) named(text, under string, millis int64) bool {
	if slices.Contains(personMembers, under) && e.has(text, "", millis) {
		return true
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'<>(),;:[]{}…`, r) }) {
		if strings.Contains(word, "@") && e.has("", strings.TrimRight(word, "."), millis) {
			return true
		}
	}
	return false
}

// mentioned reports whether what an entry says of a body names one of them. It goes from
// quote to quote: JSON may be cut short, as the audit log keeps its beginning.
func (e erased) mentioned(detail string, millis int64) bool {
	if e.named(detail, "", millis) {
		return true
	}
	under := ""
	for rest := detail; ; {
		start := strings.IndexByte(rest, '"')
		if start < 0 {
			return false
		}
		end := start + 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return false // cut in a text
		}
		var text string
		if json.Unmarshal([]byte(rest[start:end+1]), &text) != nil {
			return false
		}
		if rest = rest[end+1:]; strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":") {
			under = text
			if e.named(text, "", millis) { // suppressions stand under their entries
				return true
			}
		} else if e.named(text, under, millis) {
			return true
		}
	}
}
