package flow

import (
	"context"
	"errors"
	"testing"
)

func TestPipeAppliesWhatWasReadWhenFetchEnds(t *testing.T) {
	fetch, stop := context.WithCancel(t.Context())
	applied := 0
	err := Pipe(fetch, t.Context(), func(ctx context.Context, emit func(int) error) error {
		for i := range 3 {
			if err := emit(i); err != nil {
				return err
			}
		}
		stop()
		if err := emit(3); err != nil {
			return err
		}
		return ctx.Err()
	}, func(_ context.Context, unit int) error {
		if unit != applied {
			t.Errorf("applied %d after %d", unit, applied)
		}
		applied++
		return nil
	})
	if err != nil || applied != 4 {
		t.Fatalf("applied %d units, %v; want 4, nil", applied, err)
	}
}

func TestPipeAppliesNothingAfterAFailure(t *testing.T) {
	boom := errors.New("boom")
	applied := 0
	err := Pipe(t.Context(), t.Context(), func(_ context.Context, emit func(int) error) error {
		for i := range 1000 {
			if err := emit(i); err != nil {
				return err
			}
		}
		return nil
	}, func(_ context.Context, unit int) error {
		applied++
		if unit == 5 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || applied != 6 {
		t.Fatalf("applied %d units, %v; want 6 and the failure", applied, err)
	}
}

func TestPipeReturnsAReadFailure(t *testing.T) {
	boom := errors.New("boom")
	err := Pipe(t.Context(), t.Context(), func(context.Context, func(int) error) error { return boom },
		func(context.Context, int) error { return nil })
	if !errors.Is(err, boom) {
		t.Fatalf("%v, want the failure", err)
	}
}

func TestPipeEndsWhenWorkEnds(t *testing.T) {
	work, stop := context.WithCancel(t.Context())
	err := Pipe(work, work, func(ctx context.Context, emit func(int) error) error {
		for i := 0; ; i++ {
			if err := emit(i); err != nil {
				return err
			}
		}
	}, func(_ context.Context, unit int) error {
		if unit == 10 {
			stop()
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
