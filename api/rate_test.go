package api

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"sluice/lib/key"
	"sluice/test/clocktest"
)

func TestRates(t *testing.T) {
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	r := newRates(100, clock)
	ann, bob := key.NewIdentity("ann", "", nil), key.NewIdentity("bob", "", nil)
	after := func(who key.Identity) string {
		t.Helper()
		err := r.admit(who)
		if err == nil {
			return ""
		}
		refused, ok := errors.AsType[*tooFast](err)
		if !ok {
			t.Fatal(err)
		}
		return refused.retryAfter()
	}
	r.spend(ann, 499)
	if got := after(ann); got != "" {
		t.Errorf("with one item left: refused for %s s", got)
	}
	r.spend(ann, 701) // into debt: 700 of it
	if got := after(ann); got != "8" {
		t.Errorf("700 items in debt: refused for %q s, want 8", got)
	}
	if got := after(bob); got != "" {
		t.Errorf("another key is refused for %s s", got)
	}
	r.spend(key.Root(), 1_000_000)
	if got := after(key.Root()); got != "" {
		t.Errorf("the root key is refused for %s s", got)
	}
	clock.Move(7 * time.Second)
	if got := after(ann); got != "1" {
		t.Errorf("the debt just paid: %q, want 1", got)
	}
	clock.Move(100 * time.Millisecond)
	if got := after(ann); got != "" {
		t.Errorf("out of debt: refused for %s s", got)
	}
	clock.Move(time.Hour)
	r.spend(ann, 501)
	if got := after(ann); got != "1" {
		t.Errorf("more than 5 s were saved up: %q", got)
	}
	clock.Move(-time.Hour)
	if got := after(ann); got != "1" {
		t.Errorf("a clock set back: %q, want 1", got)
	}
	for i := range 2 * maxKnownKeys {
		r.spend(key.NewIdentity(fmt.Sprint(i), "", nil), 1)
	}
	known := maps.Clone(r.buckets)
	for id := range known {
		r.spend(key.NewIdentity(id, "", nil), 1)
	}
	if len(r.buckets) != maxKnownKeys || len(known) != maxKnownKeys {
		t.Errorf("%d keys are remembered, then %d", len(known), len(r.buckets))
	}
	none := newRates(0, clock)
	none.spend(ann, 1_000_000)
	if err := none.admit(ann); err != nil || len(none.buckets) != 0 {
		t.Errorf("without a bound: %v, %d remembered", err, len(none.buckets))
	}
}
