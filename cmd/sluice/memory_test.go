package main

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/config"
)

// The embedded Redis may take what is set, or half of what the machine, or the
// container, has.
func TestEmbeddedLimit(t *testing.T) {
	if got := embeddedLimit(&config.Config{RedisMB: 128}); got != "128mb" {
		t.Errorf("set to 128: %s", got)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := file("meminfo", "MemFree:  1 kB\nMemTotal:       8388608 kB\n")
	for _, test := range []struct {
		meminfo, cgroup string
		want            int
	}{
		{meminfo, file("none", "max\n"), 8192},
		{meminfo, file("less", "1073741824\n"), 1024},
		{meminfo, file("more", "1099511627776\n"), 8192},
		{filepath.Join(dir, "gone"), filepath.Join(dir, "gone"), unknownMachineMB},
	} {
		if got := machineMB(test.meminfo, test.cgroup); got != test.want {
			t.Errorf("%s, %s: %d MB, want %d", test.meminfo, test.cgroup, got, test.want)
		}
	}
}
