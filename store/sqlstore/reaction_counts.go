package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/mail"
	"sluice/store"
)

// What mail has sent and got back, counted by the hour.
//
// The idea. The transaction that stores an outcome or an event has its send's row at
// hand anyway: outcomes change it, opens and clicks set its columns. So the counts of a
// transaction are summed in memory, and added in one statement. What no row is asked for
// costs nothing: events that name no send.
//
// The invariants. An event counts in the transaction that inserts its row, and in no
// other (txn.inserted). An outcome counts when it changes the state of its row. What was
// forwarded counts where it is judged, and a forward arrives once.
//
// Firsts are those of a send, as the columns of its row have them: by them it is known
// how many mails were opened, not how often. A click of our own pages is counted when it
// is judged, ten seconds later, a machine's at once, under the hour in which it happened.
//
// What was tried and dropped. Names of series ("mail:CAMPAIGN:opened"): they cannot be
// added up by one of their parts, and take the places of other names. A table of all
// reactions with a row each, added up when it is read: it is as large as the events.

const millisPerHour = int64(time.Hour / time.Millisecond)

// countedMail is what mails are told apart by.
type countedMail struct{ campaign, journey, step, variant string }

func (a countedMail) compare(b countedMail) int {
	return cmp.Or(strings.Compare(a.campaign, b.campaign), strings.Compare(a.journey, b.journey), strings.Compare(a.step, b.step), strings.Compare(a.variant, b.variant))
}

// reactionKey names a row of reactions, but for its stripe.
type reactionKey struct {
	countedMail
	hour    int64 // since 1970
	kind    mail.ReactionKind
	link    int
	machine bool
}

func (k reactionKey) compare(other reactionKey) int {
	return cmp.Or(cmp.Compare(k.hour, other.hour), k.countedMail.compare(other.countedMail), strings.Compare(k.kind.String(), other.kind.String()),
		cmp.Compare(k.link, other.link), cmp.Compare(k.machineNumber(), other.machineNumber()))
}

func (k reactionKey) machineNumber() int {
	if k.machine {
		return 1
	}
	return 0
}

// reactionSum is what is added to a row: how often it happened, and for how many sends
// for the first time, by anybody and by a person.
type reactionSum struct{ count, firsts, humanFirsts int64 }

type reactionSums map[reactionKey]reactionSum

// add counts what happens to a mail of itself.
func (s reactionSums) add(of countedMail, kind mail.ReactionKind, millis int64) {
	s.addTo(reactionKey{countedMail: of, hour: millis / millisPerHour, kind: kind}, reactionSum{count: 1})
}

func (s reactionSums) addTo(k reactionKey, n reactionSum) {
	sum := s[k]
	s[k] = reactionSum{sum.count + n.count, sum.firsts + n.firsts, sum.humanFirsts + n.humanFirsts}
}

// linkOf is the number of a link as the column has it; 0: not known.
func linkOf(n int) int {
	if n < 0 || n > math.MaxUint16 {
		return 0
	}
	return n
}

// addReactions adds sums to the table, in the order of its key: so transactions wait for
// each other and never in a circle.
func (t *txn) addReactions(ctx context.Context, sums reactionSums, stripe int) error {
	if len(sums) == 0 {
		return nil
	}
	admitted := make(reactionSums, len(sums))
	for _, k := range slices.SortedFunc(maps.Keys(sums), reactionKey.compare) {
		text := t.store.d.text
		key := k
		key.countedMail = countedMail{text(k.campaign), text(k.journey), text(k.step), text(k.variant)}
		key, err := t.store.counted.admit(ctx, t, key)
		if err != nil {
			return fmt.Errorf("read what mail an hour has counts of: %w", err)
		}
		admitted.addTo(key, sums[k])
	}
	var args []any
	for _, k := range slices.SortedFunc(maps.Keys(admitted), reactionKey.compare) {
		n := admitted[k]
		args = append(args, t.store.d.millis(k.hour*millisPerHour), stripe, k.campaign, k.journey, k.step, k.variant, k.kind.String(), k.link, k.machineNumber(), n.count, n.firsts, n.humanFirsts)
	}
	_, err := t.rows(ctx, "reactions_add", 12, args)
	return err
}

// Bounds of what is known of hours. Most hours have few mails: by their number alone, what
// is told a day late would have each hour read again in each transaction.
const (
	maxReactionHours = 1024
	maxReactionKnown = 16 * store.MaxReactionMails
)

// reactionHours are the mails and links that hours count by themselves: the first
// store.MaxReactionMails of each hour. The writers of a process share it. Several processes
// each know what they met, and what was there when they met the hour first: together they
// may let in some more than the bound.
//
// What is known stays so if the transaction that met it first was rolled back: it will be
// met again, or has cost a place.
type reactionHours struct {
	mu    sync.Mutex
	hours map[int64]map[countedLink]struct{}
	total int     // of all hours
	used  []int64 // the hours, the one that was asked for last at the end
}

// countedLink is what is admitted: a link of mails, or what they have beside links.
type countedLink struct {
	countedMail
	link int
}

// admit returns under which key something is counted. While it reads an hour, another writer
// waits: the statement takes no lock that the other's transaction may hold.
func (h *reactionHours) admit(ctx context.Context, t *txn, k reactionKey) (reactionKey, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, err := h.hour(ctx, t, k.hour)
	if err != nil {
		return k, err
	}
	of := countedLink{k.countedMail, k.link}
	if _, ok := known[of]; ok {
		return k, nil
	}
	if len(known) >= store.MaxReactionMails {
		k.countedMail, k.link = countedMail{campaign: store.OtherName}, 0
		return k, nil
	}
	for _, text := range []*string{&of.campaign, &of.journey, &of.step, &of.variant} {
		*text = strings.Clone(*text) // it shares the memory of a batch, which would be kept whole
	}
	known[of] = struct{}{}
	h.total++
	return k, nil
}

// hour returns what an hour counts, and reads it if the hour is not known.
func (h *reactionHours) hour(ctx context.Context, t *txn, hour int64) (map[countedLink]struct{}, error) {
	if n := len(h.used); n > 0 && h.used[n-1] == hour {
		return h.hours[hour], nil
	}
	if i := slices.Index(h.used, hour); i >= 0 {
		h.used = append(slices.Delete(h.used, i, i+1), hour)
		return h.hours[hour], nil
	}
	known := make(map[countedLink]struct{})
	args := []any{t.store.d.millis(hour * millisPerHour), store.MaxReactionMails + 1}
	err := t.each(ctx, rawQuery(t.store.d, "reactions_known"), args, func(scan scanner) error {
		var of countedLink
		err := scan(&of.campaign, &of.journey, &of.step, &of.variant, &of.link)
		known[of] = struct{}{}
		return err
	})
	if err != nil {
		return nil, err
	}
	if h.hours == nil {
		h.hours = make(map[int64]map[countedLink]struct{})
	}
	for len(h.used) > 0 && (len(h.used) >= maxReactionHours || h.total+len(known) > maxReactionKnown) {
		h.total -= len(h.hours[h.used[0]])
		delete(h.hours, h.used[0])
		h.used = slices.Delete(h.used, 0, 1)
	}
	h.hours[hour], h.used, h.total = known, append(h.used, hour), h.total+len(known)
	return known, nil
}

// DeleteReactions deletes the counts of the oldest hour that begins before a moment.
// more: there may be others.
func (s *Store) DeleteReactions(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error) {
	oldest, more, err := s.scanTime(s.reads.QueryRowContext(ctx, query(s.d, "reactions_oldest"), s.d.millis(beforeMillis)))
	if err == nil && more {
		deleted, err = s.changed(ctx, "reactions_delete", s.d.millis(oldest))
	}
	return deleted, more, s.failed(err, "delete old counts of reactions in")
}
