package ingest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// Replayer gives dead letters another chance after their cause was mended. An
// element goes to the end of its list, an item to the end of its partition's
// log. A replayed dead letter is dropped. A crash between the two steps leaves
// it, and replaying it again within a day does not double it.
type Replayer struct {
	Store store.Store
	Lists map[string]*flow.List // by source
	Logs  []*flow.Log

	// Replicas must have an item before its dead letter is dropped. An element is not
	// waited for: what a failover takes from a list is not known here.
	Replicas flow.Replicas

	// Missing says why lists are not in Lists although they are configured, by the source
	// of a list, and by that of hashes without "@" and their id: they can be replayed later,
	// or elsewhere.
	Missing map[string]error
}

// Replay replays one dead letter. An *sluice.Error says that there is none, or that it
// cannot be replayed; after another error it may be tried again.
func (r *Replayer) Replay(ctx context.Context, id int64) error {
	d, err := r.Store.DeadLetter(ctx, id)
	if err != nil {
		return err
	}
	name := strconv.FormatInt(id, 10) + "@" + strconv.FormatInt(d.TimeMillis, 10)
	switch d.Form {
	case sluice.FormElement:
		list, ok := r.Lists[d.Source]
		if why := r.missing(d.Source); !ok && why != nil {
			return fmt.Errorf("replay dead letter %d: %w", id, why)
		}
		if !ok {
			return sluice.Refuse(sluice.CodeConflict, "replay dead letter %d: its source %s is not among the lists and hashes of the configuration", id, d.Source)
		}
		err = list.Again(ctx, name, d.Payload)
	case sluice.FormItem:
		if d.Place.Partition >= len(r.Logs) {
			return sluice.Refuse(sluice.CodeConflict, "replay dead letter %d: partition %d does not exist", id, d.Place.Partition)
		}
		err = r.item(ctx, r.Logs[d.Place.Partition], name, d.Payload)
	default:
		return sluice.Refuse(sluice.CodeConflict, "replay dead letter %d: a dead %s can only be shown or dropped", id, d.Form)
	}
	if err != nil {
		return fmt.Errorf("replay dead letter %d: %w", id, err)
	}
	if err := r.Store.DropDeadLetter(ctx, id); err != nil {
		return fmt.Errorf("drop replayed dead letter %d: %w; replaying it again within a day is harmless", id, err)
	}
	return nil
}

// item appends an item to a log, and returns when replicas have it.
func (r *Replayer) item(ctx context.Context, log *flow.Log, name string, item []byte) error {
	received, err := r.Replicas.From(ctx, log)
	if err != nil {
		return err
	}
	// An event whose row was refused has counted for its user, if it does: the
	// letters of 0.1 do not say so.
	if err := log.Again(ctx, name, append(sluice.NewBatch(len(item)), sluice.Apart(item)...)); err != nil {
		return err
	}
	return received(ctx)
}

func (r *Replayer) missing(source string) error {
	if set := source[:max(0, strings.LastIndexByte(source, '@'))]; strings.HasPrefix(set, "hashes:") {
		source = set
	}
	return r.Missing[source]
}
