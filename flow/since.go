package flow

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Since returns since when something is done in a way that has this name, and
// whether nobody had asked before: then it is done so from now on. It works in a full
// Redis as well.
func (r *Redis) Since(ctx context.Context, name string, now time.Time) (since time.Time, first bool, err error) {
	const verb = "read since when it is done this way"
	answer, err := r.callTexts(ctx, verb, "since", []string{sinceKey()}, []string{name, strconv.FormatInt(now.UnixMilli(), 10)})
	if err != nil {
		return time.Time{}, false, err
	}
	millis, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%s: %q is no time: %w", verb, answer[0], err)
	}
	return time.UnixMilli(millis), answer[1] == "1", nil
}
