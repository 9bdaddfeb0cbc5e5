package bench

import (
	"context"
	"fmt"
	"time"

	"sluice/journey"
)

// The part `saved` of `bench journey`: checkpoints of where people are.
const (
	savedOf      = 2              // of all people are in the waves with and without checkpoints
	savedShare   = 2. / 3         // of such a wave: so long after its begin checkpoints begin
	savedNever   = 24 * time.Hour // in which no checkpoint is written
	savedPeople  = 100            // are looked at after the recovery
	savedDueDays = 30             // until anybody moves whose record is in the checkpoint
)

// saved measures a checkpoint of everybody alone, how long it takes to go on from it when
// Redis is empty, and how much longer a wave is with checkpoints.
func (b *journeyBench) saved(ctx context.Context) error {
	number, err := b.publish(ctx, "saved")
	if err != nil {
		return err
	}
	due := time.Now().AddDate(0, 0, savedDueDays)
	if err := b.enter(ctx, number, due); err != nil {
		return err
	}
	if err := b.checkpoint(ctx); err != nil {
		return err
	}
	b.run.say("%s: redis is emptied", b.name)
	if err := b.empty(ctx, func() error { return nil }); err != nil {
		return err
	}
	if err := b.recoverAll(ctx, int(number), due); err != nil {
		return err
	}
	return b.wavesSaved(ctx)
}

// checkpoint has the records of everybody written, who have all changed.
func (b *journeyBench) checkpoint(ctx context.Context) error {
	b.run.say("%s: a checkpoint of everybody", b.name)
	f := b.follower(&benchClock{})
	f.CheckpointEvery = time.Millisecond
	began := time.Now()
	defer runs(ctx, f)()
	saved := 0
	if err := until(ctx, journeyWithin, func() bool {
		if f.Stats.Saved.Load() >= journeyPartitions { // one may have written several
			saved, _ = b.savedPartitions(ctx)
		}
		return saved == journeyPartitions
	}); err != nil {
		return fmt.Errorf("wait for a checkpoint: %d of %d partitions have one, %d attempts failed: %w", saved, journeyPartitions, f.Stats.Unsaved.Load(), err)
	}
	b.add("checkpoint", "a checkpoint of everybody, from the start of the process", "s", time.Since(began).Seconds())
	b.add("checkpoint_mb", "a checkpoint of everybody", "MB", float64(f.Stats.SavedBytes.Load())/1e6)
	return nil
}

// savedPartitions counts the partitions that have a checkpoint.
func (b *journeyBench) savedPartitions(ctx context.Context) (n int, err error) {
	all, err := b.store.Checkpoints(ctx)
	for i := range all {
		if !all[i].At.IsZero() {
			n++
		}
	}
	return n, err
}

// recoverAll has the records written into an empty Redis, and looks for some of them.
func (b *journeyBench) recoverAll(ctx context.Context, number int, due time.Time) error {
	if _, err := b.hold(ctx); err != nil {
		return err
	}
	f := b.follower(&benchClock{})
	f.CheckpointEvery = savedNever
	began := time.Now()
	defer runs(ctx, f)()
	if err := until(ctx, journeyWithin, func() bool { return f.Stats.Opened.Load() == journeyPartitions }); err != nil {
		return fmt.Errorf("wait for the records to be written anew: %w", err)
	}
	b.add("recover_sql", "an empty Redis, until all records are there and who is due when", "s", time.Since(began).Seconds())
	if n := f.Stats.Recovered.Load(); n != journeyPartitions {
		return fmt.Errorf("verify the recovery: %d of %d partitions were written anew", n, journeyPartitions)
	}
	for i := range int64(savedPeople) {
		id := b.id(1 + i*(b.users/savedPeople))
		raw, err := b.logs[id.Partition].RecordOf(ctx, number, id.Number)
		if err != nil {
			return err
		}
		var r journey.Record
		if err := r.Decode(raw[:]); err != nil || r.Due != uint32(due.Unix()) {
			return fmt.Errorf("verify the recovery: the record of user %s is %+v, wanted one that is due at %d: %w", id, r, due.Unix(), err)
		}
	}
	return nil
}

// wavesSaved compares waves without and with checkpoints that are written in their midst.
// They alternate, so that what slows the machine slows both. Each partition has one in the
// wave: by itself it has one in 40 seconds. After half of a wave it would have two.
func (b *journeyBench) wavesSaved(ctx context.Context) error {
	var without float64
	for n, with := range []bool{false, true, true, false} {
		id, label, every := "unsaved_wave", "a wave without checkpoints", savedNever
		if with {
			id, label, every = "saved_wave", "a wave with checkpoints in its midst", time.Duration(without*savedShare*float64(time.Second))
		}
		b.run.say("%s: %s", b.name, label)
		took, err := b.waveOf(ctx, fmt.Sprint("saved-", n), 1, b.users/savedOf, every)
		if err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
		if !with {
			without = took.seconds
		} else if took.saved == 0 {
			b.run.say("%s: none was written in the %.1f s of a wave of so few people", b.name, took.seconds)
			return nil
		}
		b.add(id, label, "s", took.seconds)
		if with {
			b.add("saved_in_wave", "checkpoints of partitions that were written in a wave", "1", float64(took.saved))
		}
	}
	return nil
}
