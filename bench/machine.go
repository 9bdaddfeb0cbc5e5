package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machine is where a bench ran.
type machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB int    `json:"memory_mb"`
	Kernel   string `json:"kernel"`
	System   string `json:"system"`
}

// readMachine reads what Linux tells; elsewhere those fields say unknown.
func readMachine() machine {
	m := machine{CPU: "unknown", Kernel: "unknown", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if v := fileField("/proc/cpuinfo", "model name"); v != "" {
		m.CPU = v
	}
	kb, _, _ := strings.Cut(fileField("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.Atoi(kb); err == nil {
		m.MemoryMB = n >> 10
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// fileField returns what stands behind "name:" in a file of such lines, or "".
func fileField(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func programVersions() map[string]string {
	v := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v["sluice"] = s.Value
		case "vcs.modified":
			v["sluice_modified"] = s.Value
		}
	}
	return v
}

// busySpan is how long the machine is watched before a run.
const busySpan = 150 * time.Millisecond

// watchBusy notes how much of all cores was in use just before a run, when
// nothing of ours should be. A figure from a machine that others used must be
// read with that in mind. It matters most where Sluice, which has work for two
// cores, is compared with a bulk load, which has work for one.
func (r *run) watchBusy(ctx context.Context) error {
	idleBefore, allBefore := cpuTicks()
	if err := pause(ctx, busySpan); err != nil {
		return err
	}
	idle, all := cpuTicks()
	if all > allBefore {
		r.busy = append(r.busy, 100*(1-(idle-idleBefore)/(all-allBefore)))
		r.report.Settings["busy_before_runs"] = fmt.Sprintf("median %.0f %%, max %.0f %% of all cores", median(r.busy), slices.Max(r.busy))
	}
	return nil
}

// cpuTicks returns two times since the start of the machine: how long the cores
// were idle, and that with all the rest. Both are zero where /proc does not
// tell.
func cpuTicks() (idle, all float64) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i > 8 {
			continue // the name; the guests, which are counted as users already
		}
		if all += n; i == 4 || i == 5 { // proc(5): idle, iowait
			idle += n
		}
	}
	return idle, all
}
