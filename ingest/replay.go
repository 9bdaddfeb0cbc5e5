package ingest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/flow"
)

// Replayer gives dead letters another chance, after what killed them was
// mended: an element goes to the end of its list, an item to the end of its
// partition's log. What was replayed is dropped; a crash between the two
// leaves the dead letter, and replaying it again does not double it.
type Replayer struct {
	Store sluice.Store
	Lists map[string]*flow.List // by name
	Logs  []*flow.Log
}

// Replay replays one dead letter.
func (r *Replayer) Replay(ctx context.Context, id int64) error {
	d, err := r.Store.DeadLetter(ctx, id)
	if err != nil {
		return err
	}
	name := strconv.FormatInt(id, 10) + "@" + strconv.FormatInt(d.TimeMillis, 10)
	var forget func() error
	switch d.Form {
	case sluice.FormElement:
		list, ok := r.Lists[strings.TrimPrefix(d.Source, "list:")]
		if !ok {
			return fmt.Errorf("replay dead letter %d: its source %s is not among the lists of the configuration", id, d.Source)
		}
		if err := list.Again(ctx, name, d.Payload); err != nil {
			return fmt.Errorf("replay dead letter %d: %w", id, err)
		}
		forget = func() error { return list.Forget(ctx, name) }
	case sluice.FormItem:
		if d.Place.Partition >= len(r.Logs) {
			return fmt.Errorf("replay dead letter %d: partition %d does not exist", id, d.Place.Partition)
		}
		log := r.Logs[d.Place.Partition]
		source := "dead:" + name
		batch := append(sluice.NewBatch(len(d.Payload)), d.Payload...)
		if _, err := log.Append(ctx, source, "", "1", batch, false); err != nil {
			return fmt.Errorf("replay dead letter %d: %w", id, err)
		}
		forget = func() error { return log.Forget(ctx, source) }
	default:
		return fmt.Errorf("replay dead letter %d: a dead %s can only be shown or dropped", id, d.Form)
	}
	if err := r.Store.DropDeadLetter(ctx, id); err != nil {
		return fmt.Errorf("drop replayed dead letter %d: %w; replaying it again is harmless", id, err)
	}
	return forget()
}
