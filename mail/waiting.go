package mail

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"sluice"
)

// Load is an amount of mail that waits to be sent.
type Load struct {
	Sends int64
	Bytes int64 // of the sends in Redis, and of their contents in the database
}

// Add adds another load.
func (l *Load) Add(other Load) { l.Sends, l.Bytes = l.Sends+other.Sends, l.Bytes+other.Bytes }

// Less takes another load away.
func (l *Load) Less(other Load) { l.Sends, l.Bytes = l.Sends-other.Sends, l.Bytes-other.Bytes }

// WaitingFull refuses mail because as much waits to be sent as may. Nothing of the
// request was taken in; everything but mail is still accepted. It unwraps to an
// *Error: CodeTooFast for the bound of a key, CodeUnavailable for that of the
// deployment.
type WaitingFull struct {
	Key        bool // the bound of a key
	Marketing  bool // Most is what the bound leaves for marketing mail
	Have, Most Load // 0 of Most: no bound
	Adds       Load // what the request would add
}

// keptShare: one part in so many of each bound of what waits is kept for transactional
// mail, so that a campaign that fills a bound has no password reset refused.
const keptShare = 10

// ForMarketing is what a bound leaves for marketing mail. What is kept is rounded up;
// of a bound of 1 nothing is.
func (l Load) ForMarketing() Load {
	return Load{Sends: lessKept(l.Sends), Bytes: lessKept(l.Bytes)}
}

func lessKept(most int64) int64 {
	if most < 2 {
		return most
	}
	return most - (most-1)/keptShare - 1
}

// keptFor says why a bound is smaller than its setting.
func keptFor(marketing bool) string {
	if !marketing {
		return ""
	}
	return " (a tenth of the bound, at least one, is kept for transactional mail)"
}

// Error says what waits, what the bound is, and what to do.
func (e *WaitingFull) Error() string {
	what, have, adds, most, unit, setting := "mails", e.Have.Sends, e.Adds.Sends, e.Most.Sends, "", "mails"
	if most == 0 || have+adds <= most {
		what, have, adds, most, unit, setting = "bytes of mail", e.Have.Bytes, e.Adds.Bytes, e.Most.Bytes, " bytes", "megabytes"
	}
	whose := "of all senders"
	if e.Key {
		whose, setting = "of this key", "key_"+setting
	}
	return fmt.Sprintf("%d %s %s wait to be sent, and this request would add %d; at most %d%s may wait%s. Nothing was taken in. Send it again when mail has left, or raise waiting.%s", have, what, whose, adds, most, unit, keptFor(e.Marketing), setting)
}

// Unwrap returns it as a refusal of the API.
func (e *WaitingFull) Unwrap() error {
	code := sluice.CodeUnavailable
	if e.Key {
		code = sluice.CodeTooFast
	}
	return &sluice.Error{Code: code, Message: e.Error(), Index: -1}
}

// NeverFits refuses mail that is more than may wait at all: it would be refused
// whenever it came. Nothing of the request was taken in.
func NeverFits(most, adds Load, key, marketing bool) *sluice.Error {
	what, n, bound, setting := "mails", adds.Sends, most.Sends, "mails"
	if most.Sends == 0 || adds.Sends <= most.Sends {
		what, n, bound, setting = "bytes of mail", adds.Bytes, most.Bytes, "megabytes"
	}
	whose := "in all"
	if key {
		whose, setting = "of this key", "key_"+setting
	}
	return sluice.Refuse(sluice.CodeTooLarge,
		"the request would have %d %s wait to be sent, and at most %d may wait %s%s. Nothing was taken in. Send it in several parts, or raise waiting.%s", n, what, bound, whose, keptFor(marketing), setting)
}

// Weight is about how many bytes each of the message's sends takes while it waits,
// with its share of a content that is held once.
func (d *Draft) Weight() int {
	bytes, recipients := d.SendBytes(), max(1, len(d.To))
	if !d.Inline() {
		bytes += len(d.Content)
	}
	return (bytes + recipients - 1) / recipients
}

// Load is what the message adds to what waits.
func (d *Draft) Load() Load {
	return Load{Sends: int64(len(d.To)), Bytes: int64(d.Weight()) * int64(len(d.To))}
}

// An account is under what the sends of a key that expire on one day are counted
// while they wait: KEY|DAY, days since 1970. What is left in it some days later
// can only be an error of counting, and is dropped: so no error lasts longer than
// the mail that it came from.
const (
	accountDayMillis = 24 * 60 * 60 * 1000

	// maxWeight bounds as how many bytes a send counts.
	maxWeight = 2 * sluice.MaxMessageBytes

	// AccountGraceDays is how many days after its day an account is dropped.
	AccountGraceDays = 7
)

// Count has the send counted while it waits, as one of a key; key may be empty.
func (s *Send) Count(key string, weight int) {
	s.Account, s.Weight = key+"|"+strconv.FormatInt(s.ExpiresMillis/accountDayMillis, 10), min(max(1, weight), maxWeight)
}

// Recount moves a send that is counted to the account of its new day of expiry.
func (s *Send) Recount() {
	if s.Account != "" {
		key, _, _ := strings.Cut(s.Account, "|")
		s.Count(key, s.Weight)
	}
}

// ParseAccount returns the key of an account, and whether the account is dropped
// by a moment: what is no account is.
func ParseAccount(account string, nowMillis int64) (key string, dropped bool) {
	key, digits, found := strings.Cut(account, "|")
	day, err := strconv.ParseInt(digits, 10, 64)
	return key, !found || err != nil || nowMillis/accountDayMillis > day+AccountGraceDays
}

// appendAccount appends how a send is counted, nothing if it is not: so programs
// read it that know of no accounts.
func appendAccount(item []byte, s *Send) []byte {
	if s.Account == "" {
		return item
	}
	return binary.AppendUvarint(sluice.AppendText(item, s.Account), uint64(s.Weight))
}

// cutAccount reads what appendAccount wrote, to the end of an item.
func cutAccount(b []byte, s *Send) error {
	s.Account, s.Weight = "", 0
	if len(b) == 0 {
		return nil
	}
	account, rest, ok := sluice.CutText(b)
	weight, n := binary.Uvarint(rest)
	if !ok || account == "" || n <= 0 || n != len(rest) || weight > maxWeight {
		return fmt.Errorf("decode send: %w: its account cannot be read", sluice.ErrBatchBroken)
	}
	s.Account, s.Weight = account, int(weight)
	return nil
}
