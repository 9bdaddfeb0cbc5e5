package sluice

import (
	"math"
	"slices"
	"testing"
)

func TestPositionText(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Position
	}{
		{"", Position{}},
		{"0-0", Position{}},
		{"1760000000000-3", Position{1760000000000, 3}},
		{"18446744073709551615-18446744073709551615", Position{math.MaxUint64, math.MaxUint64}},
	} {
		got, err := ParsePosition(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("ParsePosition(%q) = %v, %v; want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"1", "-", "1-", "-1", "1-2-3", "a-1", "1-a", "+1-1", " 1-1", "1-1 ", "18446744073709551616-0", "0-18446744073709551616", "-1-1", "1_0-1"} {
		if got, err := ParsePosition(text); err == nil {
			t.Errorf("ParsePosition(%q) = %v, want an error", text, got)
		}
	}
}

func TestPositionOrder(t *testing.T) {
	// 9-0 comes before 10-0, which their texts do not.
	sorted := []Position{{}, {0, 1}, {0, math.MaxUint64}, {9, 0}, {10, 0}, {10, 2}, {10, 10}, {math.MaxUint64, 0}, {math.MaxUint64, math.MaxUint64}}
	for i, p := range sorted {
		for j, q := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := p.Compare(q); got != want {
				t.Errorf("%v compared with %v: %d, want %d", p, q, got, want)
			}
			if p.Before(q) != (i < j) {
				t.Errorf("%v before %v: %v", p, q, p.Before(q))
			}
		}
		if p.IsZero() != (i == 0) {
			t.Errorf("%v is zero: %v", p, p.IsZero())
		}
	}
	if !slices.IsSortedFunc(sorted, Position.Compare) {
		t.Error("the order is not one")
	}
}

// FuzzParsePosition: what is read is what was written, and nothing else is
// taken but leading zeros.
func FuzzParsePosition(f *testing.F) {
	f.Add("0-0", uint64(0), uint64(0))
	f.Add("007-1", uint64(1), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, text string, major, minor uint64) {
		p := Position{major, minor}
		if got, err := ParsePosition(p.String()); err != nil || got != p {
			t.Fatalf("%v came back as %v, %v", p, got, err)
		}
		if p, err := ParsePosition(text); err == nil {
			if again, err := ParsePosition(p.String()); err != nil || again != p {
				t.Fatalf("%q is %v, which comes back as %v, %v", text, p, again, err)
			}
		}
	})
}
