package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
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
