package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
)

// Gap is one at which a follower stands still.
type Gap struct {
	What        string          `json:"-"` // as in GapError
	Cursor      sluice.Position `json:"-"`
	Start       sluice.Position `json:"-"`
	SinceMillis int64           `json:"since"`
	Lost        Lost            `json:"lost"`
}

// Lost is how many entries lie in a gap of a log.
type Lost struct {
	Entries int64 `json:"entries"`
	Known   bool  `json:"known"`
	About   bool  `json:"about,omitempty"` // the cursor is from before the oldest count
}

// String says how many in words.
func (n Lost) String() string {
	switch {
	case !n.Known:
		return "an unknown number of entries"
	case n.About:
		return fmt.Sprintf("about %d entries", n.Entries)
	}
	return fmt.Sprintf("%d entries at most", n.Entries)
}

// Gaps is where followers record the gaps at which they stand still, and read
// that an operator has accepted the loss. It is a hash in the main Redis.
type Gaps struct{ Redis *Redis }

const acceptedBefore = "accepted " // before what it is

func (g *Gap) span() string { return g.Cursor.String() + " " + g.Start.String() }

// Tell records that a follower stands still, and reports whether that gap, and
// no other in its place, has been accepted.
func (g Gaps) Tell(ctx context.Context, gap *Gap) (accepted bool, err error) {
	text, err := json.Marshal(gap)
	if err != nil {
		return false, err
	}
	if err := g.Redis.Put(ctx, "say that something is missing", gapsKey(), gap.What, gap.span()+" "+string(text)); err != nil {
		return false, err
	}
	span, err := Ask(ctx, g.Redis, "ask whether a gap is accepted", g.Redis.B().Hget().Key(gapsKey()).Field(acceptedBefore+gap.What).Build(), Text)
	return span == gap.span(), err
}

// Accepted reports whether any of some gaps has been accepted.
func (g Gaps) Accepted(ctx context.Context, gaps []*GapError) (bool, error) {
	fields, err := g.fields(ctx, "ask whether a gap is accepted")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(gaps, func(e *GapError) bool {
		at := Gap{Cursor: e.Cursor, Start: e.Start}
		return fields[acceptedBefore+e.What] == at.span()
	}), nil
}

// Forget forgets the gaps that are over, and that they were accepted. One that was told
// again, or another in its place, stays.
func (g Gaps) Forget(ctx context.Context, over func(*Gap) bool) error {
	fields, err := g.fields(ctx, "read the gaps")
	if err != nil {
		return err
	}
	all, err := readGaps(fields)
	if err != nil {
		return err
	}
	var args []string
	for i := range all {
		if what := all[i].What; over(&all[i]) {
			args = append(args, what, fields[what], acceptedBefore+what)
		}
	}
	if len(args) == 0 {
		return nil
	}
	_, err = g.Redis.callInt(ctx, "forget gaps", "forget_gaps", []string{gapsKey()}, args)
	return err
}

// Clear forgets all gaps, for a restore: followers tell those that they meet.
func (g Gaps) Clear(ctx context.Context) error {
	return g.Redis.Do(ctx, "forget gaps", g.Redis.B().Del().Key(gapsKey()).Build())
}

// List returns the gaps at which followers stand still, by the log or list that
// they are in.
func (g Gaps) List(ctx context.Context) ([]Gap, error) {
	fields, err := g.fields(ctx, "read the gaps")
	if err != nil {
		return nil, err
	}
	return readGaps(fields)
}

func (g Gaps) fields(ctx context.Context, verb string) (map[string]string, error) {
	return Ask(ctx, g.Redis, verb, g.Redis.B().Hgetall().Key(gapsKey()).Build(), rueidis.RedisResult.AsStrMap)
}

// readGaps reads the hash of gaps.
func readGaps(fields map[string]string) (all []Gap, err error) {
	for what, text := range fields {
		if strings.HasPrefix(what, acceptedBefore) {
			continue
		}
		gap := Gap{What: what}
		words := strings.SplitN(text, " ", 3)
		if len(words) != 3 {
			return nil, fmt.Errorf("read the gap of %s: %q is not written as one", what, text)
		}
		if gap.Cursor, err = sluice.ParsePosition(words[0]); err == nil {
			gap.Start, err = sluice.ParsePosition(words[1])
		}
		if err == nil {
			err = json.Unmarshal([]byte(words[2]), &gap)
		}
		if err != nil {
			return nil, fmt.Errorf("read the gap of %s: %w", what, err)
		}
		all = append(all, gap)
	}
	slices.SortFunc(all, func(a, b Gap) int { return strings.Compare(a.What, b.What) })
	return all, nil
}

// Accept records that the missing part is lost: the follower that stands still
// goes on behind it.
func (g Gaps) Accept(ctx context.Context, gap *Gap) error {
	return g.Redis.Put(ctx, "accept a gap", gapsKey(), acceptedBefore+gap.What, gap.span())
}

// Lost returns how many entries behind a cursor the log had, applied and removed
// since. It is counted when entries are removed (trim.lua).
func (l *Log) Lost(ctx context.Context, cursor sluice.Position) (n Lost, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, p := l.redis.client, l.partition
	answers := c.DoMulti(ctx, c.B().Hget().Key(p.sourcesKey()).Field(removedField).Build(), c.B().Lrange().Key(p.removedKey()).Start(0).Stop(-1).Build())
	all, err := answers[0].AsInt64()
	if rueidis.IsRedisNil(err) {
		return n, nil
	}
	if err != nil {
		return n, l.redis.wrap("count what a log has lost", err)
	}
	counts, err := answers[1].AsStrSlice()
	if err != nil {
		return n, l.redis.wrap("count what a log has lost", err)
	}
	n = Lost{Entries: all, Known: len(counts) > 0, About: true}
	for _, text := range counts {
		id, count, _ := strings.Cut(text, " ")
		at, err := sluice.ParsePosition(id)
		if err != nil {
			return Lost{}, fmt.Errorf("count what the log of partition %d has lost: %w", p.Number, err)
		}
		before, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return Lost{}, fmt.Errorf("count what the log of partition %d has lost: %q is no number", p.Number, count)
		}
		if cursor.Before(at) {
			break
		}
		n.Entries, n.About = all-before, false
	}
	return n, nil
}
