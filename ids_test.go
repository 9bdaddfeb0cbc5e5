package sluice

import "testing"

// The names of messages are kept by databases: what had an id yesterday has it today.
func TestNamedMessageIDStays(t *testing.T) {
	for _, x := range []struct {
		millis int64
		once   string
		index  int
		want   string
	}{
		{1_700_000_000_000, "journey/7/hello/2/3.41", 0, "018bcfe56800d53f96c4548c156527db"},
		{1_700_000_000_123, "k-1", 999, "018bcfe5687be8b9dfae788f1331b474"},
		{-1, "", -3, "ffffffffffffaaae8365270b27e56ee8"},
		{1 << 48, "a/b", 10, "0000000000003be6695f4c253c5f8d78"},
	} {
		got := NamedMessageID(x.millis, x.once, x.index)
		if got != x.want || !ValidMessageID(got) {
			t.Errorf("%d %q %d is %s, want %s", x.millis, x.once, x.index, got, x.want)
		}
	}
}

// So have those that are kept in the order of their places.
func TestPlacedMessageIDStays(t *testing.T) {
	for _, x := range []struct {
		millis int64
		place  uint32
		name   string
		want   string
	}{
		{1_700_000_000_000, 0x030001, "journey/7/hello/2/9/3.41", "018bcfe568000300015928bd9ed83c03"},
		{1_700_000_000_123, 0xff_123456, "", "018bcfe5687b123456e3b0c44298fc1c"},
	} {
		got := PlacedMessageID(x.millis, x.place, []byte(x.name))
		if got != x.want || !ValidMessageID(got) {
			t.Errorf("%d %x %q is %s, want %s", x.millis, x.place, x.name, got, x.want)
		}
	}
}

func BenchmarkNamedMessageID(b *testing.B) {
	for b.Loop() {
		NamedMessageID(1_700_000_000_000, "journey/7/hello/2/3.41", 0)
	}
}
