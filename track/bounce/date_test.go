package bounce

import "testing"

// Names of zones have the offsets of RFC 5322, 4.3, wherever this machine stands.
func TestDatesOfOldForms(t *testing.T) {
	for value, want := range map[string]string{
		"Wed, 05 Nov 2025 02:00:00 PST": "2025-11-05T10:00:00Z", "Wed, 05 Nov 2025 02:00:00 pdt": "2025-11-05T09:00:00Z",
		"Wed, 05 Nov 2025 02:00:00 MST": "2025-11-05T09:00:00Z", "Wed, 05 Nov 2025 02:00:00 MDT": "2025-11-05T08:00:00Z",
		"Wed, 05 Nov 2025 02:00:00 CST": "2025-11-05T08:00:00Z", "Wed, 05 Nov 2025 02:00:00 CDT": "2025-11-05T07:00:00Z",
		"Wed, 05 Nov 2025 02:00:00 EST": "2025-11-05T07:00:00Z", "Wed, 05 Nov 2025 02:00:00 EDT (now)": "2025-11-05T06:00:00Z",
		"5 Nov 2025 02:00:00 -0000": "2025-11-05T02:00:00Z", "5 Nov 2025 02:00 GMT": "2025-11-05T02:00:00Z", "5 Nov 25 02:00:00 UT": "2025-11-05T02:00:00Z", "Wed, 5 Nov 2025 02:00:00 Z": "2025-11-05T02:00:00Z",
		"Wed, 5 Nov 2025 02:00:00 A": "2025-11-05T02:00:00Z", "Wed, 5 Nov 2025 02:00:00 CEST": "2025-11-05T02:00:00Z", "Wed, 5 Nov 2025 02:00:00 UTC": "2025-11-05T02:00:00Z",
		"Wed, 5 Nov 2025 02:00:00 PM": "", "Wed, 5 Nov 2025 02:00:00 -0800 (EST)": "2025-11-05T10:00:00Z", "Wed, 5 Nov 2025 02:00:00": "",
		"Wed Nov  5 10:00:00 2025": "2025-11-05T10:00:00Z", "Wed Nov 15 10:00:00 PST 2025": "2025-11-15T18:00:00Z", "Wed Nov 5 10:00:00 2025 +0100": "2025-11-05T09:00:00Z",
		"Wed Now 5 10:00:00 2025": "", "Wed Nov 5 10:00:00": "", "PST": "", "10:00:00": "",
	} {
		if got := date(value); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
		m := "Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nArrival-Date: x\nReceived-Date: " + value + "\n"
		if got := Parse([]byte(m))[0].Time; got != want {
			t.Errorf("Received-Date: %s: %q, want %q", value, got, want)
		}
	}
}
