package engine

import (
	"fmt"

	"sluice/lib/doctor"
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

// ExamineDisk looks how much of a directory's disk is free.
func ExamineDisk(dir string) doctor.Examination {
	e := doctor.Examination{Where: dir}
	free, total, err := FreeBytes(dir)
	if err != nil {
		e.Unknown(fmt.Errorf("ask for the free space of %s: %w", dir, err), doctor.CheckDiskFree)
		return e
	}
	judgeDisk(&e, free, total)
	if left, most, err := freeFiles(dir); err == nil {
		judgeFiles(&e, left, most)
	}
	return e
}

func judgeDisk(e *doctor.Examination, free, total uint64) {
	const remedy = "make room: `sluice doctor` before it is full is easier than after; a full disk stops writes, and with them everything"
	text := fmt.Sprintf("%.1f of %.1f GiB are free", float64(free)/(1<<30), float64(total)/(1<<30))
	switch {
	case free == 0:
		e.Fail(doctor.CheckDiskFree, remedy, "it is full: nothing of %.1f GiB is free", float64(total)/(1<<30))
	case free < min(diskErrorBytes, total*diskErrorPercent/100):
		e.Fail(doctor.CheckDiskFree, remedy, "%s", text)
	case free < min(diskWarnBytes, total*diskWarnPercent/100):
		e.Warn(doctor.CheckDiskFree, remedy, "%s", text)
	default:
		e.Fine(doctor.CheckDiskFree, "%s", text)
	}
}

// judgeFiles looks how many files more there may be: a disk without room for
// another file is full, however many bytes are free. Some file systems have no
// bound, and say 0 of 0.
func judgeFiles(e *doctor.Examination, left, most uint64) {
	const remedy = "remove files (df -i says where it is full), or move the directory to a file system with more inodes"
	switch {
	case most == 0:
	case left == 0:
		e.Fail(doctor.CheckDiskFree, remedy, "it is full: it has %d files and no room for another", most)
	case left < min(diskWarnFiles, most/100):
		e.Warn(doctor.CheckDiskFree, remedy, "there is room for %d files more, of %d", left, most)
	}
}
