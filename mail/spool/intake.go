package spool

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
)

// onceTTL is how long the name of a request is remembered.
const onceTTL = 24 * time.Hour

// namesTogether is how many messages of a request take as much of Redis as a name of
// a request does (flow.OnceNames).
const namesTogether = 3

// Intake takes drafts in: their contents to the database if they are large,
// then their sends to the logs. Both are written in groups with those of others
// (flow.Writer, BodyWriter). It is a mail.Submitter.
type Intake struct {
	Writer     *flow.Writer
	Bodies     *BodyWriter
	Partitions int
	Clock      sluice.Clock

	// Accepted counts the sends that were accepted, repeats under a name again; nil: nobody
	// asks.
	Accepted *atomic.Int64

	// Room bounds the pending mail; nil: no bound.
	Room *Room

	// Names counts what is remembered of requests; nil: nothing does.
	Names *flow.OnceNames

	// Moved is since when sends go to the partition of their address as a key
	// of a user. A request with a name that was first seen before may be in the
	// logs in part, by the program of 0.1. Its sends go where that program
	// would write them.
	Moved time.Time

	// Check says why a draft can never be sent, nil: it can. A nil Check lets all
	// in.
	Check func(*mail.Draft) error
}

var _ mail.Submitter = (*Intake)(nil)

// Submit accepts drafts. See mail.Submitter.
func (in *Intake) Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error) {
	refused, err := in.Still(ctx, once, drafts, in.check(drafts))
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, refused
	}
	var size mail.RequestSize
	for i := range drafts { // before anything is built of them
		if err := size.Add(&drafts[i], i); err != nil {
			return nil, err
		}
	}
	giveBack, err := in.room(ctx, once, drafts)
	if err != nil {
		return nil, err
	}
	ids, written, err := in.write(ctx, once, drafts)
	if err != nil {
		giveBack() // what is in all the same is counted in Redis
		return nil, err
	}
	if in.Accepted != nil {
		in.Accepted.Add(int64(written))
	}
	return ids, nil
}

// room takes room for the drafts of a request, all of one key, and returns what
// gives it back. What was accepted under its name before needs none.
func (in *Intake) room(ctx context.Context, once string, drafts []mail.Draft) (giveBack func(), err error) {
	if len(drafts) == 0 {
		return func() {}, nil
	}
	key, load := drafts[0].Key, mail.Load{}
	marketing := false
	for i := range drafts {
		load.Add(drafts[i].Load())
		marketing = marketing || drafts[i].Class == mail.ClassMarketing
	}
	if err := in.Room.Take(ctx, key, load, marketing); err != nil {
		if in.repeated(ctx, once, drafts) {
			return func() {}, nil
		}
		return nil, err
	}
	return func() { in.Room.GiveBack(key, load) }, nil
}

// repeated reports whether all drafts of a request were accepted under its name
// before.
func (in *Intake) repeated(ctx context.Context, once string, drafts []mail.Draft) bool {
	if once == "" {
		return false
	}
	var all sluice.Refusals
	for i := range drafts {
		all = append(all, &sluice.Error{Index: i})
	}
	left, err := in.Still(ctx, once, drafts, all)
	return err == nil && len(left) == 0
}

// write builds what drafts come to and writes it.
func (in *Intake) write(ctx context.Context, once string, drafts []mail.Draft) (ids []string, sends int, err error) {
	now, later := in.Clock.Now().UnixMilli(), sluice.Later(in.Clock).UnixMilli()
	ids = make([]string, len(drafts))
	parts := make([]share, in.Partitions)
	var bodies []mail.Body
	for i := range drafts {
		d := &drafts[i]
		ids[i] = d.ID
		if ids[i] == "" {
			if once != "" {
				return nil, 0, fmt.Errorf("accept message %d of the request %q: it has no id, and a repeat would make another; name it by sluice.NamedMessageID", i, once)
			}
			ids[i] = sluice.NewMessageID(now)
		}
		content := ""
		if d.Inline() {
			content = string(d.Content)
		} else {
			// Until their sends are stored, retention spares bodies by their age: one whose
			// clock is behind must not make them look old.
			bodies = append(bodies, mail.Body{Message: ids[i], Recipients: len(d.To), CreatedMillis: later, Data: d.Content})
		}
		in.add(parts, d, once, ids[i], content, now, later)
		for p := range parts {
			if once != "" {
				parts[p].name(ids[i])
			}
		}
	}
	if err := in.Bodies.Add(ctx, bodies); err != nil { // before the sends that name them
		return nil, 0, fmt.Errorf("store the contents of %d messages: %w", len(bodies), err)
	}
	var written []flow.Part
	for p := range parts {
		if parts[p].Count > 0 {
			parts[p].Partition = p
			written = append(written, parts[p].Part)
			sends += parts[p].Count
		}
	}
	if once == "" {
		err = in.Writer.Write(ctx, written...)
	} else {
		err = in.writeOnce(ctx, once, drafts, parts)
	}
	return ids, sends, err
}

// share is what a partition gets of a request.
type share struct {
	flow.Part
	messages []flow.Named // if the request has a name
}

// name says of which message the sends are that came since it was called last.
func (s *share) name(message string) {
	named := 0
	if n := len(s.messages); n > 0 {
		named = s.messages[n-1].End
	}
	if len(s.Items) > named {
		s.messages = append(s.messages, flow.Named{Name: message, End: len(s.Items)})
	}
}

// check returns Refusals of those drafts that can never be sent: an outcome
// days later would come too late for the caller.
func (in *Intake) check(drafts []mail.Draft) (refused sluice.Refusals) {
	refuse := func(i int, why string) {
		refused = append(refused, &sluice.Error{Code: sluice.CodeInvalid, Index: i, Message: why})
	}
	for i := range drafts {
		if n := len(drafts[i].To); n == 0 || n > sluice.MaxRecipients {
			refuse(i, fmt.Sprintf("%d recipients, want 1 to %d", n, sluice.MaxRecipients))
		} else if in.Check == nil {
			continue
		} else if err := in.Check(&drafts[i]); err != nil {
			refuse(i, err.Error())
		}
	}
	return refused
}

// Still returns those of some refusals that hold for a request that may be a
// repeat. What was accepted under its name before, even in part, stays
// accepted, whatever has changed since.
func (in *Intake) Still(ctx context.Context, once string, drafts []mail.Draft, refused sluice.Refusals) (sluice.Refusals, error) {
	if once == "" || len(refused) == 0 {
		return refused, nil
	}
	messages := make([][]string, in.Partitions)
	for _, r := range refused {
		d := &drafts[r.Index]
		for _, to := range d.To {
			p := in.partition(once, d.ID, to)
			if n := len(messages[p]); n == 0 || messages[p][n-1] != d.ID {
				messages[p] = append(messages[p], d.ID)
			}
		}
	}
	accepted := make(map[string]bool)
	for p, ids := range messages {
		if len(ids) == 0 {
			continue
		}
		taken, err := in.Writer.Taken(ctx, p, once, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range taken {
			accepted[id] = true
		}
	}
	return slices.DeleteFunc(refused, func(e *sluice.Error) bool { return accepted[drafts[e.Index].ID] }), nil
}

// partition returns the partition of a send of a request that may have a name.
func (in *Intake) partition(once, id, to string) int {
	if once == "" || in.Moved.IsZero() || !sluice.MessageTime(id).Before(in.Moved) {
		return mail.SendPartition(to, in.Partitions)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(to))) // never fails (hash.Hash)
	return int(h.Sum32() % uint32(in.Partitions))
}

// add puts the sends of a draft into their partitions' parts. Until when something is good
// is reckoned from the later time: nothing expires early because this clock is behind.
func (in *Intake) add(parts []share, d *mail.Draft, once, id, content string, now, later int64) {
	s := mail.Send{
		Message: id, Recipients: len(d.To), Priority: d.Priority, Class: d.Class, Form: d.Form,
		AcceptedMillis: now, DueMillis: max(d.DueMillis, now), ExpiresMillis: d.ExpiresMillis,
		From: d.From, App: d.App, Route: d.Route, Tags: strings.Join(d.Tags, ","), Metadata: d.Metadata, Content: content,
	}
	weight, counted := d.Weight(), sluice.WritesNewForms()
	if s.ExpiresMillis == 0 {
		s.ExpiresMillis = max(s.DueMillis, later) + mail.DefaultExpiryMillis
	}
	for n, to := range d.To {
		s.Number, s.To, s.User = n, to, ""
		if n < len(d.Users) {
			s.User = d.Users[n]
		}
		if n < len(d.DueMillisOf) {
			s.DueMillis = max(d.DueMillisOf[n], now)
			s.ExpiresMillis = max(s.DueMillis, later) + mail.DefaultExpiryMillis
		}
		if counted && (n == 0 || n < len(d.DueMillisOf)) {
			s.Count(d.Key, weight)
		}
		p := &parts[in.partition(once, id, to)]
		p.Items = mail.AppendSend(p.Items, &s)
		p.Count++
	}
}

// writeOnce writes the shares of a request that has a name, each in the step
// that remembers which messages it has. A caller that got no answer may repeat
// the request; of what was refused the first time, what is no longer refused is
// written. The caller of writeOnce checks that it is the same request.
func (in *Intake) writeOnce(ctx context.Context, once string, drafts []mail.Draft, parts []share) error {
	for i := range parts {
		if p := &parts[i]; p.Count > 0 {
			fresh, err := in.Writer.WriteEach(ctx, p.Part, once, p.messages, onceTTL)
			in.Names.Add(drafts[0].Key, int64(fresh+namesTogether-1)/namesTogether)
			if err != nil {
				return err
			}
		}
		if err := faults.Hit("submit-part"); err != nil {
			return err
		}
	}
	return nil
}
