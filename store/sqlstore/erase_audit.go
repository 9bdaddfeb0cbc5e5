package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/store"
)

// eraseAuditBytes is how much of the audit log is in memory at once: eraseAuditRows
// entries, the longest that there may be.
const (
	eraseAuditBytes = 4 << 20
	eraseAuditRows  = eraseAuditBytes / (2*store.MaxAuditText + 2*store.MaxAuditView)
)

// erasedMark stands in the place of what named somebody.
const erasedMark = "erased"

// EraseAudit implements store.RetentionStore.
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
		} else {
			pairs[i] = clean(p, "", url.QueryUnescape)
		}
	}
	return without + "?" + strings.Join(pairs, "&"), named
}

// named reports whether a value that stands under a member names one of them: by its
// address, anywhere in it, or as a user, where users are named.
func (e erased) named(text, under string, millis int64) bool {
	if store.NamesUsers(under) && e.has(text, "", millis) {
		return true
	}
	for at := range text {
		if text[at] == '@' && e.addressed(text, at, millis) {
			return true
		}
	}
	return false
}

// Characters that stand beside an address. An address may have those of besideRarely:
// they end it mostly, as in a link.
const (
	beside       = `"<>(),;:[]`
	besideRarely = "'/=?&|#\\{}*!$%^`"
)

// addressed reports whether an address of one of them has its "@" at a place of a text.
func (e erased) addressed(text string, at int, millis int64) bool {
	from, to := at, at+1
	for from > max(0, at-sluice.MaxEmailBytes) && text[from-1] > ' ' && strings.IndexByte(beside, text[from-1]) < 0 {
		from--
	}
	for to < min(len(text), at+sluice.MaxEmailBytes) && (text[to] >= utf8.RuneSelf || text[to] == '-' || text[to] == '.' || isAlphanumeric(text[to])) {
		to++
	}
	domain, _, _ := strings.Cut(text[at:to], "…")
	domain = strings.TrimRight(domain, ".-")
	local := text[from:at]
	if i := strings.LastIndex(local, "…"); i >= 0 {
		local = local[i+len("…"):]
	}
	for {
		if local != "" && e.has("", local+domain, millis) {
			return true
		}
		i := strings.IndexAny(local, besideRarely)
		if i < 0 {
			return false
		}
		local = local[i+1:]
	}
}

func isAlphanumeric(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// mentioned reports whether what an entry says of a body names one of them.
func (e erased) mentioned(detail string, millis int64) bool {
	var whole any
	d := json.NewDecoder(strings.NewReader(detail))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil || d.More() {
		return e.mentionedIn(detail, millis)
	}
	return e.within(whole, "", millis)
}

// within is named of a value of any form.
func (e erased) within(value any, under string, millis int64) bool {
	switch v := value.(type) {
	case string: // one that was cut out of JSON has quotes
		return e.named(v, under, millis) || strings.IndexByte(v, '"') >= 0 && e.mentionedIn(v, millis)
	case json.Number:
		return e.named(v.String(), under, millis)
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return e.within(x, under, millis) })
	case map[string]any:
		user := false
		for name, x := range v {
			text, _ := x.(string)
			user = user || store.SaysUsers(name, text)
		}
		for name, x := range v { // suppressions stand under their entries
			of := name
			if user {
				of = store.UserMember
			}
			if e.named(name, "", millis) || e.within(x, of, millis) {
				return true
			}
		}
	}
	return false
}

// mentionedIn is mentioned of what is no JSON, or a part of it: an entry of an older
// version may be cut anywhere. It goes from quote to quote.
func (e erased) mentionedIn(detail string, millis int64) bool {
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
			return e.named(uncut(rest[start:]), under, millis)
		}
		var text string
		if json.Unmarshal([]byte(rest[start:end+1]), &text) != nil {
			return false
		}
		if rest = rest[end+1:]; strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":") {
			under = text
			if e.named(text, "", millis) {
				return true
			}
		} else if e.named(text, under, millis) {
			return true
		}
	}
}

// uncut returns the text that the beginning of a text of JSON stands for: it may be cut in
// an escape.
func uncut(beginning string) (text string) {
	const longestEscape = len(`\ud83d\ude0`)
	for n := len(beginning); n > max(0, len(beginning)-longestEscape); n-- {
		if json.Unmarshal([]byte(beginning[:n]+`"`), &text) == nil {
			return text
		}
	}
	return beginning
}
