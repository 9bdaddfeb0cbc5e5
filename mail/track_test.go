package mail

import "testing"

func TestTrack(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Track
		ok   bool
	}{
		{"true", TrackAll, true}, {" False ", 0, true}, {"opens", TrackOpens, true}, {"CLICKS", TrackClicks, true}, {"clicks,opens", TrackAll, true},
		{"opens, clicks", TrackAll, true}, {"", 0, false}, {"open", 0, false}, {"opens,", 0, false}, {"opens, true", 0, false}, {"opens, opens", 0, false},
	} {
		if got, ok := ParseTrack(tt.text); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %d %t", tt.text, got, ok)
		}
	}
	const message = "From: a@b.c\r\n\r\nx\r\n"
	for want := range TrackAll + 1 {
		got, rest := CutTrack(WithTrack([]byte(message), want))
		if got != want || string(rest) != message {
			t.Errorf("%d became %d %q", want, got, rest)
		}
	}
	if got, rest := CutTrack([]byte("x-sluice-track: opens\r\n" + message)); got != 0 || len(rest) == len(message) {
		t.Errorf("another's header counts: %d %q", got, rest)
	}
}
