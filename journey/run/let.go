package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"sluice/flow"
)

// let is how many people a partition has let into a journey that limits them, by the name
// of the limit: in its last periods, the one that came last first. It is a note beside the records, set
// by the commit that lets them in: so it is in checkpoints too (flow.Log.Enter).
type let map[string][]letIn

type letIn struct {
	Period string `json:"period"`
	Count  int64  `json:"count"`
}

// letPeriods is of how many periods of a limit it is known.
const letPeriods = 2

// add counts n more in a period of a limit. It keeps the periods that enter.lua keeps: the two
// newest, in whatever order they come. What it forgot the next session would give back.
func (l let) add(name, period string, n int64) {
	of := l[name]
	if at := slices.IndexFunc(of, func(x letIn) bool { return x.Period == period }); at >= 0 {
		of[at].Count += n
		return
	}
	if len(of) == letPeriods {
		last, before := of[0].Period, of[1].Period
		if olderPeriod(period, last) && olderPeriod(period, before) {
			return
		}
		if olderPeriod(last, before) {
			of = of[1:]
		}
	}
	of = slices.Insert(of, 0, letIn{Period: period, Count: n})
	l[name] = of[:min(len(of), letPeriods)]
}

// olderPeriod reports whether one period is before another. Periods are dates, or seconds of
// runs: of one kind they are of one length, and those of two kinds have no order.
func olderPeriod(a, b string) bool {
	_, notA := strconv.ParseUint(a, 10, 64)
	_, notB := strconv.ParseUint(b, 10, 64)
	return (notA == nil) == (notB == nil) && a < b
}

// letNote names the note of a journey.
func letNote(journey int64) string { return "let/" + strconv.FormatInt(journey, 10) }

func (l let) text() string {
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(raw)
}

// readLet reads the note of a journey among those of a partition.
func readLet(fields map[string]string, journey int64) (let, error) {
	l := make(let)
	if text := flow.NoteIn(fields, letNote(journey)); text != "" {
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("read how many have entered journey %d: %w", journey, err)
		}
	}
	return l, nil
}

// counts are those of a partition.
func (l let) counts(partition int) (all []flow.EntryCount) {
	for name, of := range l {
		for _, x := range of {
			all = append(all, flow.EntryCount{Partition: partition, Name: name, Period: x.Period, Count: x.Count})
		}
	}
	return all
}

// openLimits says what the partition has let into a journey that limits it. What a session
// took whose commit never came is given back so. If Redis has no counts, those of all
// partitions are told, as of their checkpoints.
func (p *part) openLimits(ctx context.Context, in *inside, fields map[string]string) (err error) {
	if in.let, err = readLet(fields, in.number); err != nil || in.current == nil || !in.current.limited() {
		return err
	}
	counts := in.let.counts(p.log.Partition())
	there, err := p.log.CountsEntered(ctx, in.number)
	if err != nil {
		return err
	}
	if !there {
		others, err := p.letByOthers(ctx, in.number)
		if err != nil {
			return err
		}
		counts = append(counts, others...)
	}
	return p.log.CountEntered(ctx, in.number, p.session, lastPeriods(counts))
}

// letByOthers is what the checkpoints of the other partitions say of a journey.
func (p *part) letByOthers(ctx context.Context, journey int64) (all []flow.EntryCount, err error) {
	rows, err := p.store.Checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Partition == p.log.Partition() || rows[i].Notes == "" {
			continue
		}
		fields := make(map[string]string)
		if err := json.Unmarshal([]byte(rows[i].Notes), &fields); err != nil {
			return nil, fmt.Errorf("read the notes of the checkpoint of partition %d: %w", rows[i].Partition, err)
		}
		l, err := readLet(fields, journey)
		if err != nil {
			return nil, err
		}
		all = append(all, l.counts(rows[i].Partition)...)
	}
	return all, nil
}

// lastPeriods leaves those counts that are of the last periods of each limit, the older
// period first. Periods are numbers or dates of one length each, so they have an order.
func lastPeriods(counts []flow.EntryCount) []flow.EntryCount {
	periods := make(map[string][]string)
	for _, c := range counts {
		if !slices.Contains(periods[c.Name], c.Period) {
			periods[c.Name] = append(periods[c.Name], c.Period)
		}
	}
	for _, of := range periods {
		slices.Sort(of)
	}
	counts = slices.DeleteFunc(counts, func(c flow.EntryCount) bool {
		of := periods[c.Name]
		return !slices.Contains(of[max(len(of)-letPeriods, 0):], c.Period)
	})
	slices.SortFunc(counts, func(a, b flow.EntryCount) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Period, b.Period), cmp.Compare(a.Partition, b.Partition))
	})
	return counts
}
