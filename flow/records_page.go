package flow

import (
	"context"
	"fmt"
	"strconv"
)

// PageOfRecords calls f for the people of a journey behind a number, in the order of
// their numbers, without a lease and without Load: those of one chunk, 16,352 people in
// 33 strings at most. It returns the number behind which the next page begins; 0: nobody
// is behind. f returns false to end the page behind that person.
func (l *Log) PageOfRecords(ctx context.Context, journey int, after int64, f func(number int64, r *Record) bool) (next int64, err error) {
	text, err := Ask(ctx, l.redis, "read journeys", l.redis.B().Hget().Key(l.partition.journeysKey()).Field(strconv.Itoa(journey)).Build(), Text)
	if err != nil || text == "" {
		return 0, err
	}
	chunks, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read journey %d of partition %d: %q is no number of chunks", journey, l.partition.Number, text)
	}
	chunk := int(max(after, 0) / ChunkRecords)
	if chunk >= chunks {
		return 0, nil
	}
	r := l.Records(journey)
	units := []*Unit{r.chunk(chunk)}
	if err := r.Read(ctx, units); err != nil {
		return 0, err
	}
	if string(units[0].data) == dividedMark {
		units = r.blocks(chunk)
		if err := r.Read(ctx, units); err != nil {
			return 0, err
		}
	}
	found := make(map[int64]*Record)
	for _, u := range units {
		u.Each(func(number int64, r *Record) { found[number] = r })
	}
	last := int64(chunk+1) * ChunkRecords
	for number := after + 1; number <= last && len(found) > 0; number++ {
		if r := found[number]; r != nil && !f(number, r) {
			return number, nil
		}
	}
	if chunk+1 >= chunks {
		return 0, nil
	}
	return last, nil
}
