package ingest

import (
	"context"
	"fmt"
)

// receive returns a wait until replicas have the lines that are in the logs, given the
// last line in each; what earlier parts have written was waited for. Nothing may be read or
// written before: an answer of another Redis says nothing of this one (flow.Replicas).
func (im *Import) receive(ctx context.Context) (wait func(at []int64) error, err error) {
	waits := make([]func(context.Context) error, len(im.Logs))
	err = im.eachLog(ctx, func(ctx context.Context, p int) (err error) {
		waits[p], err = im.Replicas.From(ctx, im.Logs[p])
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(at []int64) error {
		before := int64(0)
		if im.Part != nil {
			before = im.Part.Line
		}
		err := im.eachLog(ctx, func(ctx context.Context, p int) error {
			if at[p] <= before {
				return nil
			}
			return waits[p](ctx)
		})
		if err != nil {
			return fmt.Errorf("%w; import it again: it goes on from there", err)
		}
		return nil
	}, nil
}
