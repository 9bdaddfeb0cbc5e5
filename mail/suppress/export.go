package suppress

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/mail"
)

// Files that other senders give out, and other programs write.
//
// The idea. Their columns have names in the first line, and stand in any order.
// So that line alone identifies a file: one of its cells is a name of a column
// of addresses, and none is an address. Columns that are not known here are
// passed over.

// entryColumns are names that a column of addresses or domains has, without case
// and marks. Of several in one file the first of these is it: an export of
// Mailchimp may have a postal `Address` beside `Email Address`.
var entryColumns = []string{
	"entry", "email", // our own; SendGrid
	"emailaddress", // Postmark (EmailAddress), Mailchimp (Email Address)
	"address",      // Mailgun
	"recipient", "domain",
}

// otherColumns are those that say more. In exports of Postmark the reason is a
// word (SuppressionReason), as in the API of SES (BOUNCE, COMPLAINT), whose
// files were not seen. In those of SendGrid `reason` is what a server said,
// which no word of foreignReasons is like.
var otherColumns = map[string]string{
	"reason": "reason", "suppressionreason": "reason", "scope": "scope", "appid": "app_id", "ends": "ends",
}

// impliedReasons are columns of times of one reason. Those of Mailchimp are
// UNSUB_TIME and CLEAN_TIME, as programs that read its exports name them. Those
// of Braze's API are unsubscribed_at and hard_bounced_at; its files were not
// seen.
var impliedReasons = map[string]mail.SuppressReason{
	"unsubtime": mail.SuppressUnsubscribe, "unsubscribedat": mail.SuppressUnsubscribe,
	"cleantime": mail.SuppressHardBounce, "hardbouncedat": mail.SuppressHardBounce,
}

// foreignReasons are words that others have for reasons, without case and marks.
var foreignReasons = map[string]mail.SuppressReason{
	"hardbounce": mail.SuppressHardBounce, "bounce": mail.SuppressHardBounce, "bounced": mail.SuppressHardBounce,
	"softbounces": mail.SuppressSoftBounces,
	"complaint":   mail.SuppressComplaint, "spamcomplaint": mail.SuppressComplaint, "complained": mail.SuppressComplaint, "spamreport": mail.SuppressComplaint,
	"unsubscribe": mail.SuppressUnsubscribe, "unsubscribed": mail.SuppressUnsubscribe, "manualsuppression": mail.SuppressUnsubscribe,
	"baddomain": mail.SuppressBadDomain, "manual": mail.SuppressManual,
}

// foreignReason reads a reason from a word; 0: it is none that is known.
func foreignReason(word string) mail.SuppressReason { return foreignReasons[bare(word)] }

// bare is a name without case and marks.
func bare(name string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// Header tells by the first line of a file whether it is a header, and what its
// cells are parted by. From then on ParseLine reads records under it.
func (r *Reader) Header(line string) (delimiter rune, ok bool) {
	for _, delimiter := range []rune{',', ';', '\t'} {
		parts := csv.NewReader(strings.NewReader(line))
		parts.Comma = delimiter
		cells, err := parts.Read()
		if err != nil || strings.Contains(line, "@") || strings.HasPrefix(line, "{") {
			continue
		}
		if header := headerOf(cells); header != nil {
			r.header = header
			r.implied = slices.ContainsFunc(cells, func(cell string) bool { return impliedReasons[bare(cell)] != 0 })
			return delimiter, true
		}
	}
	return 0, false
}

// headerOf says what the cells of a header are called here; nil: it is none.
func headerOf(cells []string) map[string]string {
	for _, name := range entryColumns {
		for _, entry := range cells {
			if bare(entry) != name {
				continue
			}
			header := map[string]string{strings.TrimSpace(entry): "entry"}
			for _, cell := range cells {
				if to, ok := otherColumns[bare(cell)]; ok {
					header[strings.TrimSpace(cell)] = to
				}
			}
			return header
		}
	}
	return nil
}

// parseRecord reads a record under a header. A reason in it that is none that is
// known is what somebody's server said: that of the file is it.
func (r *Reader) parseRecord(object string) ([]mail.Suppression, error) {
	s, scoped, said := r.Preset, false, r.Reasoned || !r.implied
	var reasons []mail.SuppressReason
	m := jsonscan.Read(object)
	for m.Next() {
		if reason := impliedReasons[bare(m.Key)]; reason != 0 && !r.Reasoned {
			reasons = append(reasons, reason)
		}
		name, ok := r.header[m.Key]
		if !ok {
			continue
		}
		text := strings.Clone(m.Value.Text())
		if name == "reason" {
			if reason := foreignReason(text); reason != 0 {
				s.Reason, said = reason, true
			}
			continue
		}
		scoped = scoped || name == "scope"
		if err := setMember(&s, name, text); err != nil {
			return nil, err
		}
	}
	if said {
		reasons = append(reasons, s.Reason)
	}
	if len(reasons) == 0 { // a row of somebody who is mailed
		return nil, errors.New("it has no time of an opt-out or bounce, in a file with a column of them; give --reason if all are meant")
	}
	slices.Sort(reasons)
	var all []mail.Suppression
	for _, reason := range slices.Compact(reasons) {
		one := s
		one.Reason = reason
		one, err := r.done(one, scoped)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
