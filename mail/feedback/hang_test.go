package feedback

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"sluice"
	"sluice/mail"
)

// hanging is a database that never answers.
type hanging struct {
	asked chan struct{}   // has something once it was asked
	deaf  context.Context // until this ends it heeds no deadline; nil: it does
}

func (h *hanging) hang(ctx context.Context) error {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	if h.deaf != nil {
		ctx = h.deaf
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) SendRows(ctx context.Context, _ []mail.SendKey) ([]mail.SendRow, error) {
	return nil, h.hang(ctx)
}

func (h *hanging) pause(ctx context.Context, _, _ string) (string, bool, error) {
	return "", false, h.hang(ctx)
}

// TestStopsWhileTheDatabaseHangs: a route is stopped while the database answers neither for
// the sends of reports nor for a journey.
func TestStopsWhileTheDatabaseHangs(t *testing.T) {
	for name, hang := range map[string]func(b *bed, h *hanging){
		"reports": func(b *bed, h *hanging) {
			b.first.Ledger = h
			b.first.Reported([]mail.Report{{SendKey: mail.SendKey{Message: sluice.NewMessageID(1)}, Complaint: true, TimeMillis: b.clock.Now().UnixMilli()}})
		},
		"a journey": func(b *bed, h *hanging) {
			b.first.PauseJourney = h.pause
			for range 200 {
				b.first.Result(&mail.Send{Class: mail.ClassMarketing, Journey: "welcome"}, "other", &nobody)
			}
			if err := b.first.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			b, h := newBed(t, limits), &hanging{asked: make(chan struct{}, 1), deaf: ctx}
			hang(b, h)
			ended := make(chan struct{})
			go func() { defer close(ended); b.first.Run(ctx, ctx) }()
			defer func() { stop(); <-ended }()
			<-h.asked
			b.results(400, mail.ClassMarketing, "relay", "", nobody)
			if err := b.second.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			end, tick := time.After(3*time.Minute), time.NewTicker(20*time.Millisecond)
			defer tick.Stop()
			for b.stopped()["marketing/route:relay"] == "" {
				select {
				case <-end:
					t.Fatalf("stopped %q, want the route relay", b.names())
				case <-tick.C:
					b.clock.Move(100 * time.Millisecond) // what is judged, is judged again
				}
			}
		})
	}
}

// TestDatabaseHasADeadline: what asks the database goes on without it after a while.
func TestDatabaseHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{asked: make(chan struct{}, 1)}
		w := &Watch{Ledger: h, PauseJourney: h.pause, Limits: limits, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
		w.Reported([]mail.Report{{SendKey: mail.SendKey{Message: sluice.NewMessageID(1)}, Complaint: true, TimeMillis: time.Now().UnixMilli()}})
		began := time.Now()
		if err := w.lookUp(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != databaseWithin {
			t.Errorf("reports are looked up for %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := w.carryOut(t.Context(), &Pause{Journey: "welcome"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != databaseWithin {
			t.Errorf("a journey is paused for %s: %v", time.Since(began), err)
		}
	})
}
