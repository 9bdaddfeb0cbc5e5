package ingest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"sluice"
	"sluice/flow"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
)

// MaxCounterBy bounds by how much one item of a request counts.
const MaxCounterBy = 1_000_000_000_000

// Count takes in the counters of a request: it adds them up by app, name and
// hour, or quarter of an hour where a day of a zone begins in one, and has the sums written. It returns when they are durable; items that
// are no counters are refused one by one. Errors are those of Accept.
//
// What makes a repeat harmless. A count has no id by which the store could
// recognise it, so the whole request must be in or not. With an Idempotency-Key
// its sums go into one partition, in one step. The same step remembers the key
// for 24 hours. Without a key a request that got no answer may be in, or in
// part.
func (in *Intake) Count(ctx context.Context, r *Request) (Accepted, error) {
	var done Accepted
	sums := make(map[sluice.Count]int64)
	now := in.Clock.Now().UnixMilli()
	later := laterMillis(in.Clock, now)
	for i, raw := range r.Items {
		c := sluice.Count{Kind: sluice.KindCounter, TimeMillis: now, By: 1}
		err := parseCounter(raw, &c)
		if err == nil {
			err = in.Bounds.Check(c.TimeMillis, now, later)
		}
		if err != nil {
			done.refuse(i, raw, err)
			continue
		}
		by := c.By
		c.By, c.TimeMillis = 0, sluice.RoundCountTime(c.TimeMillis)
		sums[c] = sluice.AddCount(sums[c], by)
		done.Items++
	}
	if done.Items == 0 {
		return done, nil
	}
	if r.IdempotencyKey != "" {
		if err := in.countOnce(ctx, r, sums); err != nil {
			return Accepted{}, err
		}
		return done, nil
	}
	d := drafts.Get().(*draft)
	defer d.giveBack()
	d.reset(in.Partitions)
	for c, by := range sums {
		c.By = by
		n := int((hashText(c.App) + 31*hashText(c.Name)) % uint64(in.Partitions))
		p := d.partition(n)
		before := len(p.data)
		p.data = sluice.AppendCount(p.data, &c)
		p.added(before)
	}
	if err := in.Writer.Write(ctx, d.parts()...); err != nil {
		return Accepted{}, err
	}
	return done, nil
}

// countOnce writes the sums of a request that has a key.
func (in *Intake) countOnce(ctx context.Context, r *Request, sums map[sluice.Count]int64) error {
	name := requestHash(r, nil)
	part := flow.Part{Partition: int(hashText(hex.EncodeToString(name[:])) % uint64(in.Partitions)), Count: len(sums)}
	for c, by := range sums {
		c.By = by
		part.Items = sluice.AppendCount(part.Items, &c)
	}
	err := in.Writer.WriteOnce(ctx, part, hex.EncodeToString(name[:16]), bodyPrint(r), idempotencyTTL)
	if errors.Is(err, flow.ErrOtherBody) {
		return ErrOtherBody
	}
	return err
}

// parseCounter reads an item: {"app_id": ..., "name": ..., "by": ..., "time": ...}.
// What it does not name keeps its value in c. Another field is refused: a
// misspelt "by" must not count 1.
func parseCounter(raw string, c *sluice.Count) error {
	if err := checkSize(raw); err != nil {
		return err
	}
	m := jsonscan.Read(raw)
	for m.Next() {
		var err error
		v := m.Value
		if v.Kind == jsonscan.Null {
			continue
		}
		switch m.Key {
		case "app_id":
			c.App, err = counterText(m.Key, v)
		case "name":
			c.Name, err = counterText(m.Key, v)
		case "by":
			c.By, err = counterBy(v)
		case "time":
			c.TimeMillis, err = counterTime(v)
		default:
			err = fmt.Errorf("field %.64q is not known; want app_id, name, by, time", m.Key)
		}
		if err != nil {
			return err
		}
	}
	if err := m.Err(); err != nil {
		return err
	}
	if trim(c.Name) == "" {
		return errors.New("name is missing: want a string that says what is counted")
	}
	return c.Check()
}

func counterText(field string, v jsonscan.Value) (string, error) {
	if v.Kind != jsonscan.String && (v.Kind != jsonscan.Number || field == "name") {
		return "", fmt.Errorf("%s is %s, want a string", field, v.Kind)
	}
	s := v.Text()
	if v.Escaped {
		b := v.AppendText(nil)
		s = unsafe.String(unsafe.SliceData(b), len(b))
	}
	limit := sluice.MaxNameBytes
	if field == "app_id" {
		limit = sluice.MaxAppIDBytes
	}
	return s, checkText(field, s, limit, v.Escaped)
}

func counterTime(v jsonscan.Value) (int64, error) {
	if v.Kind != jsonscan.String && v.Kind != jsonscan.Number {
		return 0, fmt.Errorf("time not understood: it is %s, want a string or a number", v.Kind)
	}
	return timetext.Parse(v.Text(), v.Kind == jsonscan.String)
}

// counterBy reads an integer, which JSON may also write as 12.0 or 1.2e1.
func counterBy(v jsonscan.Value) (int64, error) {
	by, err := strconv.ParseInt(v.Raw, 10, 64)
	if err != nil && v.Kind == jsonscan.Number {
		// All integers up to MaxCounterBy are exact in a float64.
		var number float64
		if number, err = strconv.ParseFloat(v.Raw, 64); number == math.Trunc(number) && math.Abs(number) <= MaxCounterBy {
			by = int64(number)
		}
	}
	if v.Kind != jsonscan.Number || err != nil || by < 1 || by > MaxCounterBy {
		return 0, fmt.Errorf("by is %.32s, want an integer from 1 to %d", v.Raw, int64(MaxCounterBy))
	}
	return by, nil
}
