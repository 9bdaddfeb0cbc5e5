package suppress

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/lib/timetext"
	"sluice/mail"
	"sluice/user/profile"
)

// Reader reads suppressions as people and programs write them.
type Reader struct {
	// Preset is what is not said of one: reason, scope and app, source and time.
	Preset mail.Suppression

	// Scoped: the scope of Preset was asked for. Without it, and where no scope
	// stands beside the entry, an unsubscription is about marketing alone, as
	// one that is an event is. All others are about all mail.
	Scoped bool

	// Reasoned: the reason of Preset was asked for. Then a column of times of a reason in a
	// file says nothing.
	Reasoned bool

	// Force takes entries that CheckWidth refuses.
	Force bool

	header  map[string]string // of a file, see Header
	implied bool              // a column of the header says why by what is in it
}

// Parse reads a suppression from a JSON object: entry, and reason, scope, app_id
// and ends, which are those of Preset where they are left out.
func (r *Reader) Parse(object string) (mail.Suppression, error) { return r.parse(object, false) }

// parse is Parse. listed says that the object may be one of a list of ours, with what that
// says beside: source and time are those of the list, and are passed over. What was removed
// from it is refused: taken, it would hold back mail again.
func (r *Reader) parse(object string, listed bool) (mail.Suppression, error) {
	s := r.Preset
	v, err := jsonscan.Scan(object)
	if err != nil || v.Kind != jsonscan.Object {
		return s, errors.New("it is no JSON object")
	}
	s.Entry = ""
	seen := make(map[string]bool, 5)
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		switch {
		case listed && (m.Key == "source" || m.Key == "time"), listed && m.Key == "removed" && m.Value.Raw == "false":
			continue
		case listed && m.Key == "removed":
			return s, errors.New("it was removed from the list that it is of; leave it out")
		}
		if m.Value.Kind != jsonscan.String || seen[m.Key] {
			return s, fmt.Errorf("%.32q: want a text, once", m.Key)
		}
		seen[m.Key] = true
		if err := setMember(&s, m.Key, strings.Clone(m.Value.Text())); err != nil {
			return s, err
		}
	}
	return r.done(s, seen["scope"])
}

// done gives a suppression the scope of its reason, and checks it.
func (r *Reader) done(s mail.Suppression, scoped bool) (mail.Suppression, error) {
	if s.Entry == "" {
		return s, errors.New("it has no entry")
	}
	if s.Reason == mail.SuppressUnsubscribe && !scoped && !r.Scoped {
		s.Scope = mail.ScopeMarketing
	}
	if !r.Force {
		if err := CheckWidth(s.Entry); err != nil {
			return s, err
		}
	}
	return s, s.Check()
}

// ParseLine reads a line of a file. It is a record under a header (Header), as
// transfer.LineReader has it, or a JSON object as Parse has it, or as `sluice
// suppression list --json` prints it. Otherwise it is an entry and, behind a comma,
// a reason, which may be another program's word for it. A record may have several reasons,
// each of which is a suppression: who has opted out and bounced has opted out also when the
// bounces are forgotten.
func (r *Reader) ParseLine(line string) ([]mail.Suppression, error) {
	if line = strings.TrimSpace(line); r.header != nil {
		return r.parseRecord(line)
	}
	one, err := r.parseText(line)
	if err != nil {
		return nil, err
	}
	return []mail.Suppression{one}, nil
}

// parseText is ParseLine of a line without a header.
func (r *Reader) parseText(line string) (mail.Suppression, error) {
	if strings.HasPrefix(line, "{") {
		return r.parse(line, true)
	}
	s := r.Preset
	entry, reason, ok := cutEntry(line)
	if err := setMember(&s, "entry", entry); err != nil {
		return s, err
	}
	if ok {
		reason = strings.Trim(reason, `" `)
		if s.Reason = foreignReason(reason); s.Reason == 0 {
			return s, setMember(&s, "reason", reason)
		}
	}
	return r.done(s, false)
}

// cutEntry cuts a line behind its entry. A quote at its beginning is that of
// the line's first value. It is that of a local part if an @ follows the second
// quote (RFC 5321, 4.1.2): that has no need of others.
func cutEntry(line string) (entry, reason string, ok bool) {
	local := 0
	if strings.HasPrefix(line, `"`) {
		local = max(0, strings.LastIndex(line, `"@`))
	}
	domain, reason, ok := strings.Cut(line[local:], ",")
	if entry = line[:local] + domain; local == 0 {
		entry = strings.Trim(entry, `" `)
	}
	return entry, reason, ok
}

// setMember sets one thing of a suppression from its text.
func setMember(s *mail.Suppression, name, text string) (err error) {
	ok := true
	switch name {
	case "entry":
		if s.Entry, ok = ParseEntry(text); !ok {
			return fmt.Errorf("entry is %.64q, %s", text, WantEntry)
		}
	case "reason":
		if s.Reason, ok = mail.ParseSuppressReason(text); !ok {
			return fmt.Errorf("reason is %.32q, want one of %v", text, mail.SuppressReasons)
		}
	case "scope":
		if s.Scope, ok = mail.ParseScope(text); !ok {
			return fmt.Errorf("scope is %.32q, want all or marketing", text)
		}
	case "app_id":
		if s.App = text; strings.ContainsRune(text, 0) {
			return errors.New("app_id has a zero character")
		}
	case "ends":
		if s.EndMillis, err = timetext.Parse(text, true); err != nil || s.EndMillis <= 0 {
			return fmt.Errorf("ends is %.64q, want a time such as 2026-01-31T12:00:00Z", text)
		}
	default:
		return fmt.Errorf("%.64q is not known; want entry, reason, scope, app_id, ends", name)
	}
	return nil
}

// CheckStored is List.Check for a caller without a list: it asks the store.
func CheckStored(ctx context.Context, store mail.SuppressionStore, clock sluice.Clock, address string, class mail.Class, app string) (Hit, bool, error) {
	entry, ok := profile.NormalAddress(address)
	domain := mime.DomainOf(entry)
	if !ok || domain == "" {
		return Hit{}, false, fmt.Errorf("%.64q is no address", address)
	}
	entries := []string{entry, domain, "." + domain}
	for _, above, more := strings.Cut(domain, "."); more; _, above, more = strings.Cut(above, ".") {
		entries = append(entries, "."+above)
	}
	stored, err := store.SuppressionsOf(ctx, entries)
	if err != nil {
		return Hit{}, false, err
	}
	list := NewList(clock)
	for i := range stored {
		list.sets.Load().change(&stored[i], clock.Now().UnixMilli())
	}
	v, suppressed := list.Check(entry, class, app)
	return v, suppressed, nil
}
