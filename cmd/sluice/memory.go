package main

import (
	"os"
	"strconv"
	"strings"

	"sluice/config"
)

// unknownMachineMB is the memory of a machine that does not say how much it has.
const unknownMachineMB = 4096

// embeddedLimit is how much memory the embedded Redis may take, as Redis reads it:
// what is set, or half of the machine's. At the limit Redis refuses what would add
// to it, and goes on with what takes away.
func embeddedLimit(cfg *config.Config) string {
	megabytes := cfg.RedisMB
	if megabytes == 0 {
		megabytes = max(config.MinRedisMB, machineMB("/proc/meminfo", "/sys/fs/cgroup/memory.max")/2)
	}
	return strconv.Itoa(megabytes) + "mb"
}

// machineMB is the machine's memory, or what the program's container may have of
// it if that is less.
func machineMB(meminfo, cgroup string) int {
	have := unknownMachineMB
	if text, err := os.ReadFile(meminfo); err == nil {
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "MemTotal:" {
				continue
			}
			if kilobytes, err := strconv.Atoi(fields[1]); err == nil {
				have = kilobytes >> 10
			}
		}
	}
	if text, err := os.ReadFile(cgroup); err == nil {
		if bytes, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil { // else it is "max"
			have = min(have, bytes>>20)
		}
	}
	return have
}
