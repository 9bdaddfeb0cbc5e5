package flow

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/clocktest"
)

// Names of requests are remembered up to a number, by all processes together; those
// that are known are answered beyond it, and after a day there is room again.
func TestNamesAreBounded(t *testing.T) {
	r := dial(t)
	clock := clocktest.At(time.Now())
	first, second := &OnceNames{Redis: r, Most: 10, Clock: clock}, &OnceNames{Redis: r, Most: 10, Clock: clock}
	once := func(o *OnceNames, name string) (string, error) {
		return o.Once(t.Context(), name, "value of "+name, time.Hour)
	}
	for i := range 10 {
		o := []*OnceNames{first, second}[i%2]
		if _, err := once(o, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		clock.Move(2 * namesEvery) // so each has added what it had
	}
	for _, o := range []*OnceNames{first, second} {
		if err := o.Admit(t.Context()); err != nil && o == first {
			t.Error(err)
		}
	}
	for i, o := range []*OnceNames{first, second, {Redis: r, Most: 10, Clock: clock}} {
		clock.Move(2 * namesEvery)
		e, ok := errors.AsType[*sluice.Error](o.Admit(t.Context()))
		if !ok || e.Code != sluice.CodeUnavailable {
			t.Errorf("%d: %v", i, e)
		}
	}
	for _, o := range []*OnceNames{first, second} {
		clock.Move(2 * namesEvery)
		if _, err := once(o, "new"); err == nil {
			t.Error("one more is remembered")
		}
		if got, err := o.Once(t.Context(), "3", "another value", time.Hour); err != nil || got != "value of 3" {
			t.Errorf("one that is known: %q, %v", got, err)
		}
	}
	clock.Move((namesHours + 1) * time.Hour)
	for _, o := range []*OnceNames{first, second} {
		clock.Move(2 * namesEvery)
		if _, err := once(o, "later"); err != nil {
			t.Errorf("a day later: %v", err)
		}
	}
	if n, err := r.client.Do(t.Context(), r.client.B().Hlen().Key(namesKey()).Build()).AsInt64(); err != nil || n > 2 {
		t.Errorf("%d hours are kept, %v", n, err)
	}
}
