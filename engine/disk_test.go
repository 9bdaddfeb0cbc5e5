package engine

import (
	"testing"

	"sluice/lib/doctor"
)

func TestDoctorOfDisks(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		free, total uint64
		want        doctor.Severity
	}{
		{50 * gib, 100 * gib, doctor.SeverityOK}, {6 * gib, 1000 * gib, doctor.SeverityOK}, {4 * gib, 1000 * gib, doctor.SeverityWarning},
		{gib / 2, 1000 * gib, doctor.SeverityWarning}, {gib / 3, 1000 * gib, doctor.SeverityError}, {gib / 3, 2 * gib, doctor.SeverityOK}, {0, gib, doctor.SeverityError}, {0, 40, doctor.SeverityError},
	} {
		var e doctor.Examination
		if judgeDisk(&e, test.free, test.total); e.Findings[0].Severity != test.want {
			t.Errorf("%d of %d: %+v", test.free, test.total, e.Findings)
		}
	}
}

// A disk is full of files as well as of bytes.
func TestDoctorOfDisksFullOfFiles(t *testing.T) {
	for _, test := range []struct {
		left, most uint64
		want       doctor.Severity
	}{{0, 0, ""}, {0, 1000, doctor.SeverityError}, {5, 1000, doctor.SeverityWarning}, {20_000, 1 << 20, ""}, {9_000, 1 << 20, doctor.SeverityWarning}} {
		var e doctor.Examination
		judgeFiles(&e, test.left, test.most)
		got := doctor.Severity("")
		for _, f := range e.Findings {
			got = f.Severity
		}
		if got != test.want {
			t.Errorf("room for %d of %d files: %q, want %q", test.left, test.most, got, test.want)
		}
	}
}
