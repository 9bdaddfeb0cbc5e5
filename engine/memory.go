package engine

import (
	"os"
	"strconv"
	"strings"

	"sluice/config"
	"sluice/mail"
)

// unknownMachineMB is the memory of a machine that does not say how much it has.
const unknownMachineMB = 4096

// embeddedLimit is how much memory the embedded Redis may take, as Redis reads it:
// what is set, or half of the machine's. At the limit Redis refuses what would add
// to it, and goes on with what takes away.
func embeddedLimit(cfg *config.Config) string { return strconv.Itoa(embeddedMB(cfg)) + "mb" }

func embeddedMB(cfg *config.Config) int {
	if cfg.RedisMB != 0 {
		return cfg.RedisMB
	}
	return max(config.MinRedisMB, machineMB("/proc/meminfo", "/sys/fs/cgroup/memory.max")/2)
}

// Of a Redis that is not ours the size is not known.
const (
	otherWaitingMB = 1024
	otherNames     = 5_000_000

	// nameBytes is what a name of a request takes in Redis.
	nameBytes = 250
)

// WaitingBounds are how much may wait to be sent, of all senders and of a key.
func WaitingBounds(cfg *config.Config) (all, key mail.Load) {
	w := cfg.Waiting
	if w.Megabytes == 0 {
		w.Megabytes = otherWaitingMB
		if cfg.Redis == config.RedisEmbedded {
			w.Megabytes = embeddedMB(cfg) / 2
		}
	}
	if w.KeyMegabytes == 0 {
		w.KeyMegabytes = max(1, w.Megabytes/2)
	}
	if w.KeyMails == 0 {
		w.KeyMails = (w.Mails + 1) / 2
	}
	const megabyte = 1_000_000
	return mail.Load{Sends: int64(w.Mails), Bytes: int64(w.Megabytes) * megabyte},
		mail.Load{Sends: int64(w.KeyMails), Bytes: int64(w.KeyMegabytes) * megabyte}
}

// mostNames is how many names of requests Redis remembers.
func mostNames(cfg *config.Config) int64 {
	switch {
	case cfg.OnceNames != 0:
		return int64(cfg.OnceNames)
	case cfg.Redis == config.RedisEmbedded:
		return int64(embeddedMB(cfg)) << 20 / 4 / nameBytes
	}
	return otherNames
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
