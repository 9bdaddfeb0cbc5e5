package env

import (
	"context"

	"sluice/journey"
	"sluice/store"
)

// versionPlaces is how many versions a record can tell from each other: it has the last 8
// bits of a version's number.
const versionPlaces = 256

// versionsKept bounds the versions that are kept in memory, of 256 KiB at most each.
const versionsKept = 32

// Versions finds the versions of one journey that records are of, also those that have
// ended, and keeps some of what it has read.
type Versions struct {
	Store   store.JourneyStore
	Journey int64
	Newest  int // that was published last

	read map[int]store.JourneyVersion
}

// Of returns the version of a record. Of those whose numbers end in the same 8 bits it is
// the last one that people entered before the person did, or when. People entered
// version N-256 only before N-255 was published, and N is younger than that.
func (v *Versions) Of(ctx context.Context, r *journey.Record) (store.JourneyVersion, error) {
	number := v.Newest - int(uint8(v.Newest)-r.Version)
	for ; number > versionPlaces; number -= versionPlaces {
		after, err := v.get(ctx, number-versionPlaces+1)
		if err != nil {
			return after, err
		}
		if int64(r.Entered) >= after.CreatedMillis/1000 {
			break
		}
	}
	return v.get(ctx, max(number, 1))
}

func (v *Versions) get(ctx context.Context, number int) (found store.JourneyVersion, err error) {
	if found, ok := v.read[number]; ok {
		return found, nil
	}
	if found, err = v.Store.JourneyVersion(ctx, v.Journey, number); err != nil {
		return found, err
	}
	if v.read == nil || len(v.read) >= versionsKept {
		v.read = make(map[int]store.JourneyVersion)
	}
	v.read[number] = found
	return found, nil
}
