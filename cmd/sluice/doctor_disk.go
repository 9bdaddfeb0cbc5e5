package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/spill"
)

// How little may be free: the lesser of a share and a size, so that a large
// disk need not be kept empty.
const (
	diskWarnPercent  = 10
	diskWarnBytes    = 5 << 30
	diskErrorPercent = 2
	diskErrorBytes   = 512 << 20
	diskWarnFiles    = 10_000
)

// examineDisk looks how much of a directory's disk is free.
func examineDisk(dir string) sluice.Examination {
	e := sluice.Examination{Where: dir}
	free, total, err := freeBytes(dir)
	if err != nil {
		e.Unknown(fmt.Errorf("ask for the free space of %s: %w", dir, err), sluice.CheckDiskFree)
		return e
	}
	judgeDisk(&e, free, total)
	if left, most, err := freeFiles(dir); err == nil {
		judgeFiles(&e, left, most)
	}
	return e
}

func judgeDisk(e *sluice.Examination, free, total uint64) {
	const remedy = "make room: `sluice doctor` before it is full is easier than after; a full disk stops writes, and with them everything"
	text := fmt.Sprintf("%.1f of %.1f GiB are free", float64(free)/(1<<30), float64(total)/(1<<30))
	switch {
	case free == 0:
		e.Fail(sluice.CheckDiskFree, remedy, "it is full: nothing of %.1f GiB is free", float64(total)/(1<<30))
	case free < min(diskErrorBytes, total*diskErrorPercent/100):
		e.Fail(sluice.CheckDiskFree, remedy, "%s", text)
	case free < min(diskWarnBytes, total*diskWarnPercent/100):
		e.Warn(sluice.CheckDiskFree, remedy, "%s", text)
	default:
		e.Fine(sluice.CheckDiskFree, "%s", text)
	}
}

// judgeFiles looks how many files more there may be: a disk without room for
// another file is full, however many bytes are free. Some file systems have no
// bound, and say 0 of 0.
func judgeFiles(e *sluice.Examination, left, most uint64) {
	const remedy = "remove files (df -i says where it is full), or move the directory to a file system with more inodes"
	switch {
	case most == 0:
	case left == 0:
		e.Fail(sluice.CheckDiskFree, remedy, "it is full: it has %d files and no room for another", most)
	case left < min(diskWarnFiles, most/100):
		e.Warn(sluice.CheckDiskFree, remedy, "there is room for %d files more, of %d", left, most)
	}
}

// spillPatience is how long a spill file may wait: programs look every 10 s.
const spillPatience = time.Minute

// examineSpill looks at the files of events that could not be written. It opens
// none: that takes its lock, and whoever replays it would have to wait.
func examineSpill(dir string, clock sluice.Clock) sluice.Examination {
	e := sluice.Examination{Where: dir}
	files, err := spill.List(dir)
	if err != nil {
		e.Unknown(err, sluice.CheckSpillFiles)
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
		e.Fail(sluice.CheckSpillFiles, "`sluice spill list DIR` says how much of each cannot be read; what could be is in the logs. Keep the files elsewhere, or remove them", "files that cannot be read to their end: %d", damaged)
	}
	if waiting > 0 {
		e.Warn(sluice.CheckSpillFiles, "start sluice on this data directory; `sluice spill list` shows them, `sluice spill replay` brings them back by hand", "files whose events wait for Redis for more than a minute: %d", waiting)
	}
	if damaged+waiting == 0 {
		e.Fine(sluice.CheckSpillFiles, "no events wait in files")
	}
	return e
}
