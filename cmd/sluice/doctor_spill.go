package main

import (
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/ingest/spill"
	"sluice/lib/doctor"
)

// spillPatience is how long a spill file may wait: programs look every 10 s.
const spillPatience = time.Minute

// examineSpill looks at the files of events that could not be written. It opens
// none: that takes the file's lock, and a replay would have to wait.
func examineSpill(dir string, clock sluice.Clock) doctor.Examination {
	e := doctor.Examination{Where: dir}
	files, err := spill.List(dir)
	if err != nil {
		e.Unknown(err, doctor.CheckSpillFiles)
		return e
	}
	waiting, damaged := 0, 0
	for _, f := range files {
		info, err := os.Stat(f.Path)
		switch {
		case err != nil: // it was replayed meanwhile
		case strings.HasSuffix(f.Path, spill.DamagedSuffix):
			damaged++
		case clock.Now().Sub(info.ModTime()) > spillPatience:
			waiting++
		}
	}
	if damaged > 0 {
		e.Fail(doctor.CheckSpillFiles, "`sluice spill list DIR` says how much of each cannot be read; what could be is in the logs. Keep the files elsewhere, or remove them", "files that cannot be read to their end: %d", damaged)
	}
	if waiting > 0 {
		e.Warn(doctor.CheckSpillFiles, "start sluice on this data directory; `sluice spill list` shows them, `sluice spill replay` brings them back by hand", "files whose events wait for Redis for more than a minute: %d", waiting)
	}
	if damaged+waiting == 0 {
		e.Fine(doctor.CheckSpillFiles, "no events wait in files")
	}
	return e
}
