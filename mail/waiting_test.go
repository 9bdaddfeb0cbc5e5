package mail

import (
	"testing"
)

// TestForMarketing: of each bound but 1 something is kept for transactional mail.
func TestForMarketing(t *testing.T) {
	for most, want := range map[int64]int64{0: 0, 1: 1, 2: 1, 9: 8, 10: 9, 11: 9, 20: 18, 21: 18, 100: 90} {
		if got := (Load{Sends: most, Bytes: most}).ForMarketing(); got.Sends != want || got.Bytes != want {
			t.Errorf("of %d %+v is for marketing mail, want %d", most, got, want)
		}
	}
}
