package run

import (
	"context"
	"time"

	"sluice"
)

// endAfter is how long all partitions must have said that nobody is inside a version
// before it ends. The place of somebody who was merged may be on its way from one
// partition to another meanwhile, in no record: that takes a second, and longer only
// where a partition stands still.
const endAfter = 10 * time.Minute

// versionKey names a version of a journey.
type versionKey struct {
	journey int64
	version int
}

// end ends the versions that nobody is inside. left is what the checkpoints of all
// partitions say. A version that is among them is entered by nobody any more, so what a
// checkpoint says holds for ever, whichever process has the partition later. An old answer
// only lets the version live longer. Several processes may do it at once.
func (x *Passed) end(ctx context.Context, left []map[int64][]int) error {
	if x.Journeys == nil || len(left) < x.Partitions || !sluice.WritesNewForms() {
		x.since = nil
		return nil
	}
	said := make(map[versionKey]int)
	for _, of := range left {
		for journey, versions := range of {
			for _, v := range versions {
				said[versionKey{journey, v}]++
			}
		}
	}
	now := x.Clock.Now()
	since := make(map[versionKey]time.Time)
	due := make(map[versionKey]bool)
	for key, partitions := range said {
		if partitions < x.Partitions {
			continue
		}
		since[key] = now
		if before, ok := x.since[key]; ok && before.Before(now) {
			since[key] = before
		}
		if now.Sub(since[key]) >= endAfter {
			due[key] = true
		}
	}
	if x.since = since; len(due) == 0 {
		return nil
	}
	// Where no version is left nobody moves, and the checkpoints say the same for ever.
	used, err := x.Journeys.VersionsInUse(ctx)
	if err != nil {
		return err
	}
	ending := make(map[int64][]int)
	for i := range used {
		if v := &used[i]; due[versionKey{v.Journey, v.Version}] {
			ending[v.Journey] = append(ending[v.Journey], v.Version)
		}
	}
	for journey, versions := range ending {
		if err := x.Journeys.EndVersions(ctx, journey, versions, now.UnixMilli()); err != nil {
			return err
		}
		x.Log.Info("versions of a journey have ended: nobody is inside them", "number", journey, "versions", versions)
	}
	return nil
}
