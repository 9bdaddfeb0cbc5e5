package engine

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

// What is bounded by the size of the embedded Redis is a part of it, and what is set
// is taken as it is.
func TestBoundsOfWhatWaits(t *testing.T) {
	cfg := config.Default()
	cfg.RedisMB = 1000
	all, own := WaitingBounds(cfg)
	if all.Bytes != 500_000_000 || own.Bytes != 250_000_000 || all.Sends != 0 || own.Sends != 0 || mostNames(cfg) != 1_048_576 {
		t.Errorf("%+v, %+v, %d names", all, own, mostNames(cfg))
	}
	cfg.Redis = "redis://10.0.0.7:6379"
	if all, own = WaitingBounds(cfg); all.Bytes != 1_024_000_000 || own.Bytes != 512_000_000 || mostNames(cfg) != otherNames {
		t.Errorf("another Redis: %+v, %+v, %d names", all, own, mostNames(cfg))
	}
	cfg.Waiting, cfg.OnceNames = config.Waiting{Megabytes: 10, Mails: 9, KeyMegabytes: 8}, 7000
	if all, own = WaitingBounds(cfg); all.Bytes != 10_000_000 || all.Sends != 9 || own.Bytes != 8_000_000 || own.Sends != 5 || mostNames(cfg) != 7000 {
		t.Errorf("set: %+v, %+v, %d names", all, own, mostNames(cfg))
	}
}
