package rule

import (
	"strings"
	"sync"
	"time"
)

// maxZones bounds the names that are remembered: the database has some 600,
// but a file has more names than one (Europe//Vienna).
const (
	maxZones     = 1024
	maxZoneBytes = 64 // of a name
)

// zones are the zones that were asked for: to load one is to read a file.
var zones struct {
	sync.RWMutex
	named map[string]*time.Location
}

// zoneNamed returns a zone of the IANA database. A name that is none is
// remembered too, as nil: a million users may have it.
func zoneNamed(name string) (*time.Location, bool) {
	if name == "" || name == "Local" || len(name) > maxZoneBytes {
		return nil, false
	}
	zones.RLock()
	zone, ok := zones.named[name]
	zones.RUnlock()
	if ok {
		return zone, zone != nil
	}
	if loaded, err := time.LoadLocation(name); err == nil {
		zone = loaded
	}
	zones.Lock()
	defer zones.Unlock()
	if zones.named == nil || len(zones.named) >= maxZones {
		zones.named = make(map[string]*time.Location)
	}
	zones.named[strings.Clone(name)] = zone
	return zone, zone != nil
}
