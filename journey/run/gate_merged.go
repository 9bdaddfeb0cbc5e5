package run

import (
	"context"
	"fmt"
	"slices"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/user"
)

// mergedSends is how many sends of a user are looked at for one of the same step: those with
// the highest ids. An id begins with the time of the message, and of a journey's mail with the
// day of the entry. So of two people who entered long ago, and got so much since, both mails
// may leave.
const mergedSends = 64

// cancels says of mail of a journey why it must not leave; empty: it may. records are
// those of its people. unasked are those that could not be asked about in time.
func (g *Gate) cancels(ctx context.Context, partition int, j *plans, records []flow.Record, sends []*mail.Send) (why []string, unasked []int, err error) {
	why = make([]string, len(sends))
	var q user.Query
	for i, s := range sends {
		switch {
		case hasExited(&records[i], s):
			why[i] = exitedReason(s)
		case records[i].IsZero():
			q.IDs = append(q.IDs, user.ID{Partition: partition, Number: s.Person})
		}
	}
	if len(q.IDs) == 0 {
		return why, nil, nil
	}
	asking, cancel := context.WithTimeout(ctx, gateWait) // the window has other mail
	defer cancel()
	found, err := g.store.Users(asking, q)
	if err != nil {
		return nil, nil, err
	}
	for i, s := range sends {
		id := user.ID{Partition: partition, Number: s.Person}
		row, ok := found.Owner(id)
		if !ok || row.ID == id || !records[i].IsZero() {
			continue
		}
		if why[i], err = g.ofMerged(asking, j, s, id, &row); err == nil {
			continue
		}
		if asking.Err() == nil || ctx.Err() != nil {
			return nil, nil, err
		}
		unasked = append(unasked, i) // each may ask for 64 former users; the time is over
	}
	return why, unasked, nil
}

// ofMerged says of a mail why it must not leave whose user was merged into another.
//
// Both may have a mail of one step. Then one of them leaves: the survivor's, or that of
// the lowest former user. It counts as well if it was sent while the other one waited.
// So no order in which the two are asked about lets both leave, or none. If the survivor
// has the place of the former user, and is taken out there, the mail of that place is
// cancelled. A place that moved by several merges has the mark of its first user: mail that
// was made for another one is known by its name.
func (g *Gate) ofMerged(ctx context.Context, j *plans, s *mail.Send, id user.ID, survivor *user.Row) (why string, err error) {
	raw, err := g.logs[survivor.ID.Partition].RecordsOf(ctx, int(j.number), []int64{survivor.ID.Number})
	if err != nil {
		return "", err
	}
	var r journey.Record
	if r.Decode(raw[0][:]) != nil {
		r = journey.Record{} // a newer program's, which knows
	}
	person := step.Person{ID: survivor.ID, Profile: survivor.Profile}
	if r.Former != 0 && r.HasExited(s.Occurrence) && (r.Former == step.MarkOf(id) || s.Message == messageOf(j.number, s.Step, &r, person.NamedAs(r.Former))) {
		return exitedReason(s), nil
	}
	others := slices.DeleteFunc(person.Former(), func(other user.ID) bool { return other.Compare(id) >= 0 })
	for _, other := range append(others, survivor.ID) {
		rows, err := g.store.UserSends(ctx, other, mail.SendKey{}, mergedSends)
		if err != nil {
			return "", err
		}
		own := other == survivor.ID && r.Former == 0
		for i := range rows {
			if row := &rows[i]; sameMail(row, s) && (!own || row.State != mail.SendWaiting || !r.HasExited(row.Occurrence)) {
				return fmt.Sprintf("merged %s/%s", s.Journey, s.Step), nil
			}
		}
	}
	return "", nil
}

// sameMail reports whether a row is another mail of the step of a send, which waits or
// left while the send waited.
func sameMail(row *mail.SendRow, s *mail.Send) bool {
	if row.Journey != s.Journey || row.Step != s.Step || row.Message == s.Message {
		return false
	}
	switch row.State {
	case mail.SendWaiting:
		return true
	case mail.SendSent, mail.SendInDoubt:
		return row.UpdatedMillis >= s.AcceptedMillis
	}
	return false
}
