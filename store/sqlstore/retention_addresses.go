package sqlstore

import (
	"context"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
)

// addressMembers are what properties of opens and clicks have of where somebody was
// and by which program.
var addressMembers = []string{"ip", "user_agent"}

// urlMembers are what properties of clicks have of where somebody went: ours, and those of
// providers.
var urlMembers = []string{"url", "click_url"}

// ForgetAddresses takes them out of a piece of the mail events of a range, and leaves all
// other members byte for byte. Properties that nobody can read become an empty object. The
// databases' own functions for JSON are not used: one event that they cannot read, and
// others may write such, would stop them for good.
func (s *Store) ForgetAddresses(ctx context.Context, fromMillis, toMillis int64) (changed int, reachedMillis int64, err error) {
	from, word := s.d.millis(fromMillis), sluice.KindMail.String()
	reachedMillis, _, err = s.upTo(ctx, toMillis, "event_nth", from, s.d.millis(toMillis), word, retentionPieceRows-1)
	type event struct {
		millis         int64
		id, properties string
	}
	var found []event
	if err == nil {
		found, err = list(ctx, s.d, s.reads, func(scan scanner, e *event) error {
			return scan(s.instant(&e.millis), &e.id, &e.properties)
		}, rawQuery(s.d, "event_addresses"), from, s.d.millis(reachedMillis))
	}
	if err == nil && len(found) > 0 {
		err = s.write(ctx, func(tx *txn) error {
			changed = 0
			for i := range found {
				e := &found[i]
				without := withoutAddresses(e.properties)
				if without == e.properties {
					continue
				}
				n, err := tx.changed(ctx, "event_properties", without, s.d.millis(e.millis), e.id)
				if err != nil {
					return err
				}
				changed += n
			}
			return nil
		})
	}
	return changed, reachedMillis, s.failed(err, "take addresses out of events of")
}

// withoutAddresses returns an object without addressMembers, and with URLs that name no
// mail address; what is no object is nothing. An object that has neither stays as it is.
func withoutAddresses(properties string) string {
	rest, same := []byte{'{'}, true
	m := jsonscan.Read(properties)
	for m.Next() {
		if slices.Contains(addressMembers, m.Key) {
			same = false
			continue
		}
		name, value := properties[m.Start:m.End-len(m.Value.Raw)], m.Value.Raw
		if m.Value.Kind == jsonscan.String && slices.Contains(urlMembers, m.Key) {
			if url := m.Value.Text(); urlWithoutAddress(url) != url {
				value, same = string(jsonscan.AppendQuoted(nil, urlWithoutAddress(url))), false
			}
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(rest, name...), value...)
	}
	switch {
	case m.Err() != nil:
		return "{}"
	case same:
		return properties
	}
	return string(append(rest, '}'))
}

// urlWithoutAddress cuts a URL before what names a mail address: before its query or its
// fragment, or behind its host if the path does.
func urlWithoutAddress(url string) string {
	names := func(part string) bool { return strings.Contains(part, "@") || strings.Contains(part, "%40") }
	path := 0
	if i := strings.Index(url, "//"); i >= 0 {
		path = i + len("//")
	}
	if i := strings.IndexAny(url[path:], "/?#"); i >= 0 {
		path += i
	} else {
		path = len(url) // a host, perhaps with a user of its own before it (RFC 3986, 3.2.1)
	}
	query := len(url)
	if i := strings.IndexAny(url[path:], "?#"); i >= 0 {
		query = path + i
	}
	switch {
	case names(url[path:query]):
		return url[:path]
	case names(url[query:]):
		return url[:query]
	}
	return url
}
