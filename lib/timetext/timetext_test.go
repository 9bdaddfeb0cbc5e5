package timetext

import (
	"strings"
	"testing"
	"time"

	"sluice"
)

func TestParseTime(t *testing.T) {
	const t0 = 1700000001000 // 2023-11-14T22:13:21Z
	tests := []struct {
		text   string
		quoted bool
		ms     int64
		err    string
	}{
		{"1700000001", false, t0, ""},
		{"1700000001", true, t0, ""},
		{" 1700000001\n", true, t0, ""},
		{"1700000001.5", false, t0 + 500, ""},
		{"1700000001.123999999999999999999", false, t0 + 123, ""},
		{"1700000001.9999", false, t0 + 999, ""},
		{"1.7000000015e9", false, t0 + 500, ""},
		{"17E8", false, t0 - 1000, ""},
		{"1700000001123", false, t0 + 123, ""},
		{"1700000001123.9", false, t0 + 123, ""},
		{"1700000001123456", false, t0 + 123, ""},
		{"1.700000001123456e15", false, t0 + 123, ""},
		{"1700000001123456789", false, t0 + 123, ""},
		{"1.7e18", false, t0 - 1000, ""},
		{"0", false, 0, ""},
		{"-0", false, 0, ""},
		{"-0.0", false, 0, ""},
		{"0.001", false, 1, ""},
		{"1e-999999999", false, 0, ""},
		{"253402300799", false, 253402300799000, ""},
		{"253402300799.999", false, sluice.MaxEventTimeMillis, ""},
		{"2.53402300799e11", false, 253402300799000, ""},
		{"253402300800", false, 253402300800, ""}, // now milliseconds: 1978
		{"253402300799999", false, sluice.MaxEventTimeMillis, ""},
		{"253402300800000", false, 253402300800, ""},
		{"253402300799999999", false, sluice.MaxEventTimeMillis, ""},
		{"253402300800000000", false, 253402300800, ""},
		{"18446744073709551609", false, 18446744073709, ""},
		{"20240131", true, 1706659200000, ""},
		{"20240131", false, 20240131000, ""},
		{"20240132", true, 20240132000, ""},
		{"2023-11-14", true, t0 - 80001000, ""},
		{"2023-11-14T22:13:21Z", true, t0, ""},
		{"2023-11-14t22:13:21z", true, t0, ""},
		{"2023-11-14 22:13:21", true, t0, ""},
		{"2023-11-14T22:13", true, t0 - 21000, ""},
		{"2023-11-14T22:13Z", true, t0 - 21000, ""},
		{"2023-11-14T22:13:21.1", true, t0 + 100, ""},
		{"2023-11-14T22:13:21,12Z", true, t0 + 120, ""},
		{"2023-11-14T22:13:21.123456789+00:00", true, t0 + 123, ""},
		{"2023-11-15T03:43:21+05:30", true, t0, ""},
		{"2023-11-14T17:13:21-0500", true, t0, ""},
		{"2023-11-15T00:13:21+02", true, t0, ""},
		{"2016-12-31T23:59:60Z", true, 1483228800000, ""},
		{"1970-01-01T00:00:00Z", true, 0, ""},
		{"9999-12-31T23:59:59.999Z", true, sluice.MaxEventTimeMillis, ""},
		{"2024-02-29", true, 1709164800000, ""},

		{"99999-01-01T00:00:00Z", true, 0, "time out of range: year \"99999\", want the years 1970 to 9999"},
		{"1969-12-31T23:59:59Z", true, 0, "time out of range: year 1969"},
		{"1970-01-01T00:00:00+01:00", true, 0, "time out of range: year 1969"},
		{"9999-12-31T23:59:59-01:00", true, 0, "time out of range: year 10000"},
		{"0000-01-01", true, 0, "time out of range: year 0"},
		{"-1", false, 0, `time out of range: "-1"`},
		{"-0.001", false, 0, `time out of range: "-0.001"`},
		{"-1e5", false, 0, `time out of range: "-1e5"`},
		{"1e400", false, 0, `time out of range: "1e400"`},
		{"18446744073709551616", false, 0, `time out of range: "18446744073709551616"`},
		{"1e999999999", true, 0, "time out of range"},
		{strings.Repeat("9", 1000), false, 0, `time out of range: "9999`},
		{"2023-02-29", true, 0, "time not understood"},
		{"2023-13-01", true, 0, "time not understood"},
		{"2023-00-01", true, 0, "time not understood"},
		{"2023-01-00", true, 0, "time not understood"},
		{"2023-1-1", true, 0, "time not understood"},
		{"2023-11-14T", true, 0, "time not understood"},
		{"2023-11-14T24:00:00Z", true, 0, "time not understood"},
		{"2023-11-14T22:60:00Z", true, 0, "time not understood"},
		{"2023-11-14T22:13:61Z", true, 0, "time not understood"},
		{"2023-11-14T22:13:2", true, 0, "time not understood"},
		{"2023-11-14T22:13:21.", true, 0, "time not understood"},
		{"2023-11-14T22:13:21.1234567890Z", true, 0, "time not understood"},
		{"2023-11-14T22:13:21X", true, 0, "time not understood"},
		{"2023-11-14T22:13:21+24:00", true, 0, "time not understood"},
		{"2023-11-14T22:13:21+05:60", true, 0, "time not understood"},
		{"2023-11-14T22:13:21*05", true, 0, "time not understood"},
		{"20231114T221321Z", true, 0, "time not understood"},
		{"yesterday", true, 0, `time not understood: "yesterday"`},
		{"", true, 0, "time not understood"},
		{"-", true, 0, "time not understood"},
		{".5", true, 0, "time not understood"},
		{"1e", true, 0, "time not understood"},
		{"1_000", true, 0, "time not understood"},
		{"0x10", true, 0, "time not understood"},
		{"1.2.3", true, 0, "time not understood"},
		{"Inf", true, 0, "time not understood"},
		{"1700000001 ", false, 0, "time not understood"},
	}
	for _, tt := range tests {
		ms, err := Parse(tt.text, tt.quoted)
		switch {
		case tt.err == "" && (err != nil || ms != tt.ms):
			t.Errorf("%.40q: got %d, %v, want %d", tt.text, ms, err, tt.ms)
		case tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)):
			t.Errorf("%.40q: got %d, %v, want %s", tt.text, ms, err, tt.err)
		}
	}
}

func TestParseTimeNoAllocations(t *testing.T) {
	for _, s := range []string{"1700000001", "1700000001.25", "2023-11-14T22:13:21.123+05:30", "1.7e9"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Parse(s, true) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", s, n)
		}
	}
}

// FuzzParseTime compares with time.Parse where both understand the text.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"1700000001", "1700000001.5", "1e400", "-0", "1e-999999999", "9007199254740993", "99999-01-01", "2023-11-14T22:13:21.123456789+05:30",
		"2023-11-14 22:13:21", "2023-02-29", "20240131", "2016-12-31T23:59:60Z", "", "\x00", "\xff", "2023-11-14T22:13:21Z\x00",
		strings.Repeat("9", 10_000), "+2023-01-01", "NaN", "0000-00-00 00:00:00",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, quoted bool) {
		ms, err := Parse(s, quoted)
		if err == nil && (ms < sluice.MinEventTimeMillis || ms > sluice.MaxEventTimeMillis) {
			t.Fatalf("%q: %d is out of range", s, ms)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "time not understood: ") && !strings.HasPrefix(err.Error(), "time out of range: ") {
			t.Fatalf("%q: reason %v", s, err)
		}
		if !quoted {
			return
		}
		for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
			want, wrong := time.Parse(layout, strings.TrimSpace(s))
			if wrong != nil {
				continue
			}
			if odd := strings.TrimSpace(s); len(odd) > 12 && odd[12] == ':' {
				continue // an hour of one digit, which is no RFC 3339
			} else if _, seconds, _ := strings.Cut(strings.ReplaceAll(odd, ",", "."), "."); len(firstDigits(seconds)) > 9 {
				continue // more than nine digits of a second, which we refuse
			}
			inRange := want.UnixMilli() >= sluice.MinEventTimeMillis && want.UnixMilli() <= sluice.MaxEventTimeMillis
			if inRange != (err == nil) || inRange && want.UnixMilli() != ms {
				t.Fatalf("%q: got %d, %v; time.Parse says %v, %d", s, ms, err, want, want.UnixMilli())
			}
		}
	})
}

func firstDigits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

func BenchmarkParseTime(b *testing.B) {
	for _, s := range []string{"1700000001", "1700000001123", "2023-11-14T22:13:21Z", "2023-11-14T22:13:21.123+05:30"} {
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(s, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("time.Parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := time.Parse(time.RFC3339Nano, "2023-11-14T22:13:21.123+05:30"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
