package main

import (
	"fmt"

	"sluice"
)

// How little may be free: the lesser of a share and a size, so that a large
// disk need not be kept empty.
const (
	diskWarnPercent  = 10
	diskWarnBytes    = 5 << 30
	diskErrorPercent = 2
	diskErrorBytes   = 512 << 20
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
	return e
}

func judgeDisk(e *sluice.Examination, free, total uint64) {
	const remedy = "make room: `sluice doctor` before it is full is easier than after; a full disk stops writes, and with them everything"
	text := fmt.Sprintf("%.1f of %.1f GiB are free", float64(free)/(1<<30), float64(total)/(1<<30))
	switch {
	case free < min(diskErrorBytes, total*diskErrorPercent/100):
		e.Fail(sluice.CheckDiskFree, remedy, "%s", text)
	case free < min(diskWarnBytes, total*diskWarnPercent/100):
		e.Warn(sluice.CheckDiskFree, remedy, "%s", text)
	default:
		e.Fine(sluice.CheckDiskFree, "%s", text)
	}
}
