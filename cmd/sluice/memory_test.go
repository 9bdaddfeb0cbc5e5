package main

import (
	"fmt"
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

// The embedded Redis that runs has the bound on its memory that the configuration
// says, and at it forgets nothing.
func TestEmbeddedRedisIsBounded(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_REDIS_MEGABYTES=77")
	redis := s.redis(t)
	for setting, want := range map[string]string{"maxmemory": fmt.Sprint(77 << 20), "maxmemory-policy": "noeviction"} {
		got, err := redis.Do(t.Context(), redis.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		if err != nil || got[setting] != want {
			t.Errorf("%s of the running server: %q, want %s (%v)", setting, got, want, err)
		}
	}
}
