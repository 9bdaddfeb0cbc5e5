package desk

import (
	"math"
	"testing"
)

// The intervals are those that Newcombe's article prints for its method 10.
func TestUplift(t *testing.T) {
	for _, x := range []struct {
		converted, entered, control, controlEntered int64
		low, high                                   float64
		shown                                       bool
	}{
		{56, 70, 48, 80, 0.0524, 0.3339, true},
		{9, 10, 3, 10, 0.1705, 0.8090, true},
		{5, 56, 0, 29, -0.0381, 0.1926, false},
		{0, 10, 0, 20, -0.1611, 0.2775, false},
		{10, 10, 0, 20, 0.6791, 1, true},
		{3, 10, 9, 10, -0.8090, -0.1705, true},
	} {
		u, ok := upliftOf("x", x.converted, x.entered, x.control, x.controlEntered)
		if !ok || math.Abs(u.Low-x.low) > 0.00005 || math.Abs(u.High-x.high) > 0.00005 || u.Shown != x.shown {
			t.Errorf("%d of %d and %d of %d: %+v, want %v to %v", x.converted, x.entered, x.control, x.controlEntered, u, x.low, x.high)
		}
	}
	if _, ok := upliftOf("x", 0, 5, 0, 0); ok {
		t.Error("an empty control group is compared")
	}
}
