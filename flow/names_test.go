package flow

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/test/clocktest"
)

// Names of requests are remembered up to a number, by all processes together.
// Known ones are answered beyond it, and after a day there is room again.
func TestNamesAreBounded(t *testing.T) {
	r := dial(t)
	clock := clocktest.At(time.Now())
	first, second := &OnceNames{Redis: r, Most: 10, Clock: clock}, &OnceNames{Redis: r, Most: 10, Clock: clock}
	once := func(o *OnceNames, name string) (string, error) {
		return o.Once(t.Context(), "", name, "value of "+name, time.Hour)
	}
	for i := range 10 {
		o := []*OnceNames{first, second}[i%2]
		if _, err := once(o, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		clock.Move(2 * namesEvery) // so each has added what it had
	}
	second.Used(t.Context()) // it adds its last
	for i, o := range []*OnceNames{first, second, {Redis: r, Most: 10, Clock: clock}} {
		clock.Move(2 * namesEvery)
		e, ok := errors.AsType[*sluice.Error](o.admit(t.Context(), ""))
		if !ok || e.Code != sluice.CodeUnavailable {
			t.Errorf("%d: %v", i, e)
		}
	}
	for _, o := range []*OnceNames{first, second} {
		clock.Move(2 * namesEvery)
		if _, err := once(o, "new"); err == nil {
			t.Error("one more is remembered")
		}
		if got, err := o.Once(t.Context(), "a key", "3", "another value", time.Hour); err != nil || got != "value of 3" {
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

// A key has half of the room for names: the other keys go on when it has no more.
func TestNamesOfAKeyAreBounded(t *testing.T) {
	o := &OnceNames{Redis: dial(t), Most: 11, Clock: clocktest.At(time.Now())}
	for i := range 8 {
		_, err := o.Once(t.Context(), "one", fmt.Sprint(i), "value", time.Hour)
		if e, refused := errors.AsType[*sluice.Error](err); refused != (i >= 5) || refused && e.Code != sluice.CodeTooFast {
			t.Errorf("name %d of the key: %v", i, err)
		}
	}
	if _, err := o.Once(t.Context(), "two", "a", "value", time.Hour); err != nil {
		t.Errorf("another key: %v", err)
	}
	if used := o.Used(t.Context()); used != 6.0/11 {
		t.Errorf("%g of the room is taken", used)
	}
	o.Add("two", 3)
	o.Clock.(*clocktest.Clock).Move(2 * namesEvery)
	again := &OnceNames{Redis: o.Redis, Most: 11, Clock: o.Clock}
	for _, o := range []*OnceNames{o, again} { // a process adds its own first
		if _, err := o.Once(t.Context(), "one", "new", "value", time.Hour); err == nil {
			t.Error("one more of the key is remembered")
		}
		if used := o.Used(t.Context()); used != 9.0/11 {
			t.Errorf("%g of the room is taken", used)
		}
	}
}

// Names of what was done are forgotten in all servers, and nothing else is.
func TestForgetOnce(t *testing.T) {
	forgetsOnce(t, dial(t))
}

func forgetsOnce(t *testing.T, r *Redis) {
	t.Helper()
	const partitions = 4
	foreign := listKeys{base: prefix + "{once}:list:once"}
	gone := []string{namesKey()}
	kept := []string{"once:a", prefix + "onces", prefix + "{members}:once:a", foreign.replayKey("1@2"), Partition{tag: "p0"}.onceKey("a")}
	for i := range 3 * forgetKeys {
		gone = append(gone, onceKey(fmt.Sprint(i)))
	}
	for _, p := range Partitions(partitions) {
		gone = append(gone, p.onceKey("a"), p.takenKey("a"), p.replayKey("1@2"))
		kept = append(kept, p.laneKey("once:"))
	}
	var sets rueidis.Commands
	for _, key := range append(slices.Clone(gone), kept...) {
		sets = append(sets, r.B().Set().Key(key).Value("1").Build())
	}
	if err := r.Do(t.Context(), "set keys", sets...); err != nil {
		t.Fatal(err)
	}
	if err := r.ForgetOnce(t.Context(), partitions); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(slices.Clone(gone), kept...) {
		n, err := Ask(t.Context(), r, "look for a key", r.B().Exists().Key(key).Build(), rueidis.RedisResult.AsInt64)
		if left := slices.Contains(kept, key); err != nil || (n == 1) != left {
			t.Errorf("%s is there: %v, want %v, %v", key, n == 1, left, err)
		}
	}
}
