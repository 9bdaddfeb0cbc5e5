package flow

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// takenLeases are the partitions whose leases a role has taken and not told of,
// by the process that had them before; "": none had. Guarded by Leases.mu.
type takenLeases map[string][]int

// tellTaken logs the leases that a turn has taken: a line for each process that
// had them before. At a start that is one line for all roles.
func (l *Leases) tellTaken(ctx context.Context, roles []*role) {
	said := make(map[string][]string) // by the process before
	total := make(map[string]int)
	l.mu.Lock()
	for _, r := range roles {
		for from, partitions := range r.taken {
			said[from] = append(said[from], r.name+" "+spansOf(partitions))
			total[from] += len(partitions)
		}
		clear(r.taken)
	}
	l.mu.Unlock()
	for _, from := range slices.Sorted(maps.Keys(said)) {
		level := slog.LevelDebug // all of them are, at the first start
		if from != "" {
			level = slog.LevelInfo
		}
		l.log.Log(ctx, level, "leases taken", "leases", total[from], "of", strings.Join(said[from], ", "), "from", from)
	}
}

// spansOf writes numbers in their order, those that follow each other as 3-7.
func spansOf(numbers []int) string {
	slices.Sort(numbers)
	var all []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] <= numbers[end]+1 {
			end++
		}
		if text := fmt.Sprint(numbers[i]); numbers[end] == numbers[i] {
			all = append(all, text)
		} else {
			all = append(all, fmt.Sprintf("%s-%d", text, numbers[end]))
		}
		i = end + 1
	}
	return strings.Join(all, " ")
}
