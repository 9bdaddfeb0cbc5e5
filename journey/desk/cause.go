package desk

import (
	"context"
	"fmt"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/store"
)

// takenOut says what took the person out, and as far as it is kept the value that
// decided: the fact for some minutes, a rule as it finds the person now.
func (w *why) takenOut(ctx context.Context) error {
	cause, second := w.record.Left()
	at := instantText(int64(second) * 1000)
	switch cause.Kind {
	case journey.CauseStopped:
		w.say("at %s, because the journey was stopped", at)
	case journey.CauseDeleted:
		w.say("at %s, because the person was deleted", at)
	case journey.CauseMerged:
		w.say("at %s, because the person was merged into another", at)
	case journey.CauseExit:
		if cause.Index < len(w.plan.Exit) && cause.Index < len(w.doc.ExitWhen) {
			return w.takenBy(ctx, fmt.Sprintf("exit_when[%d]", cause.Index), &w.plan.Exit[cause.Index], string(w.doc.ExitWhen[cause.Index].Rule), second)
		}
	case journey.CauseException:
		if cause.Index < len(w.plan.Exceptions) {
			return w.takenBy(ctx, fmt.Sprintf("exceptions[%d]", cause.Index), &w.plan.Exceptions[cause.Index], "", second)
		}
	default:
		w.say("by exit_when, an exception, a deletion, a merge or a stop: which is not known")
	}
	return nil
}

// takenBy says which trigger took the person out.
func (w *why) takenBy(ctx context.Context, place string, on *plan.On, rule string, second uint32) error {
	w.say("at %s, by %s: %s", instantText(int64(second)*1000), place, strings.TrimSpace(on.Kind.String()+" "+on.Name))
	facts, err := w.factsOf(ctx, second)
	if err != nil {
		return err
	}
	for i := range facts {
		f := &facts[i]
		w.say("what happened then: %s", strings.TrimSpace(f.Name+" "+f.Body))
	}
	if rule != "" {
		return w.explain(ctx, place+".rule", rule)
	}
	return nil
}

// factsOf are the facts about the person that came in a second. They are kept for some
// minutes after they were told.
func (w *why) factsOf(ctx context.Context, second uint32) (facts []journey.Fact, err error) {
	after := sluice.Place{Partition: w.person.ID.Partition, Position: sluice.Position{Major: uint64(second) * 1000}, Index: -1}
	for range factPagesLooked {
		page, err := w.Database.Journeys.Facts(ctx, after.Partition, after, factsLooked)
		if err != nil || len(page) == 0 {
			return facts, err
		}
		for i := range page {
			if after = page[i].Place; after.Position.Major/1000 != uint64(second) {
				return facts, nil
			}
			if page[i].Number == w.person.ID.Number && len(facts) < factsSaid {
				facts = append(facts, page[i])
			}
		}
	}
	return facts, nil
}

// Bounds of the facts of one second that are looked through, and of those that are said.
const (
	factsLooked     = 4 * store.MinFacts
	factPagesLooked = 16
	factsSaid       = 8
)
