package ingest

import (
	"context"

	"sluice"
)

// Update writes changes of users and returns when they are durable, in the
// order given for each key. Errors as Accept has them. They have been checked
// before: nothing of them is refused here.
func (in *Intake) Update(ctx context.Context, updates []sluice.UserUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	d := drafts.Get().(*draft)
	defer d.giveBack()
	d.reset(in.Partitions)
	for i := range updates {
		p := d.partition(updates[i].Key.Partition(in.Partitions))
		before := len(p.data)
		p.data = sluice.AppendUpdate(p.data, &updates[i])
		p.added(before)
	}
	if err := in.Writer.Write(ctx, d.parts()...); err != nil {
		return err
	}
	in.Stats.Accepted.Add(int64(len(updates)))
	return nil
}
