package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a container may have none

	"sluice/ingest"
)

// Template returns how the keys of the hashes are read.
func (h *Hashes) Template() (*ingest.HashTemplate, error) {
	zone, err := time.LoadLocation(h.Zone)
	if err != nil {
		return nil, err
	}
	return ingest.NewHashTemplate(h.Key, zone, h.AppID)
}

func (f *findings) hashes() {
	c := f.c
	type place struct {
		redis URL
		dirty string
	}
	seen := map[place]bool{}
	for i, h := range c.Hashes {
		wrong := f.entry(fmt.Sprintf("hashes[%d]", i), &h)
		for _, u := range h.Redis {
			if !slices.Equal(h.Redis, []URL{c.Redis}) { // the main one is checked where it stands
				wrong("redis", checkRedis(u, false))
			}
			if at := (place{u, h.Dirty}); seen[at] {
				wrong("redis", fmt.Errorf("has %s twice for the set %s", u, h.Dirty))
			} else {
				seen[at] = true
			}
		}
		if n := len(h.Dirty); n == 0 || n > MaxDirtyBytes {
			wrong("dirty", fmt.Errorf("is a name of %d bytes, want 1 to %d", n, MaxDirtyBytes))
		}
		if strings.HasPrefix(h.Dirty, "sluice:") {
			wrong("dirty", errors.New("begins with sluice:, as Sluice's own keys do"))
		}
		wrong("field", oneOf(h.Field, FieldHour))
		if _, err := time.LoadLocation(h.Zone); err != nil {
			wrong("zone", fmt.Errorf("is %q, which is no time zone; want a name such as UTC or Europe/Berlin", h.Zone))
		} else if _, err := h.Template(); err != nil {
			wrong("key", err)
		}
	}
	if len(seen) > MaxHashServers {
		f.add("hashes", fmt.Errorf("name %d servers, the most is %d", len(seen), MaxHashServers))
	}
}
