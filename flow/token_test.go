package flow

import (
	"strconv"
	"testing"
	"time"
)

// What a token came with first is one thing for all who ask, within the bound of its hour.
func TestFirstWith(t *testing.T) {
	one, other := dial(t), dial(t)
	made := time.Unix(1_800_000_000, 0)
	for i, x := range []struct {
		r           *Redis
		made        time.Time
		token, with string
		first       string
		known       bool
	}{
		{one, made, "a", "1", "1", true}, {other, made, "a", "2", "1", true}, {other, made, "b", "2", "2", true},
		{one, made.Add(time.Hour), "a", "3", "3", true}, // another hour: the time is signed with the token
	} {
		if first, known, err := x.r.FirstWith(t.Context(), x.made, x.token, x.with, time.Minute); err != nil || first != x.first || known != x.known {
			t.Errorf("%d: %q %v %v, want %q %v", i, first, known, err, x.first, x.known)
		}
	}
	key := tokensKey(made.Unix() / 3600)
	fields := one.client.B().Hset().Key(key).FieldValue()
	for i := range TokensPerHour {
		fields = fields.FieldValue("filler"+strconv.Itoa(i), "x")
	}
	if err := one.client.Do(t.Context(), fields.Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if first, known, err := one.FirstWith(t.Context(), made, "c", "1", time.Minute); err != nil || known || first != "" {
		t.Errorf("beyond the bound: %q %v %v", first, known, err)
	}
	if first, _, err := one.FirstWith(t.Context(), made, "a", "9", time.Minute); err != nil || first != "1" {
		t.Errorf("what is known: %q %v", first, err)
	}
	if ms, err := one.client.Do(t.Context(), one.client.B().Pttl().Key(key).Build()).AsInt64(); err != nil || ms <= 0 || ms > time.Minute.Milliseconds() {
		t.Errorf("it lives %d ms: %v", ms, err)
	}
}
