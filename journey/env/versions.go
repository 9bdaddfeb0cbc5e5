package env

import (
	"context"

	"sluice/journey"
	"sluice/store"
)

// versionPlaces is how many versions a record can tell from each other: it has the last 8
// bits of a version's number.
const versionPlaces = 256

// Versions finds the versions of one journey that records are of, also those that have
// ended.
type Versions struct {
	Store   store.JourneyStore
	Journey int64
	Newest  int // that was published last

	created map[int]int64 // when versions were published, as far as it was asked
}

// Number returns the number of the version of a record. Of those that end in the same 8
// bits it is the last one that people entered before the person did, or when. People
// entered version N-256 only before N-255 was published, and N is younger than that. 0:
// it is one that the database has lost, because it has gone back.
func (v *Versions) Number(ctx context.Context, r *journey.Record) (int, error) {
	number := v.Newest - int(uint8(v.Newest)-r.Version)
	for ; number > versionPlaces; number -= versionPlaces {
		after, err := v.createdMillis(ctx, number-versionPlaces+1)
		if err != nil {
			return 0, err
		}
		if int64(r.Entered) >= after/1000 {
			break
		}
	}
	return max(number, 0), nil
}

func (v *Versions) createdMillis(ctx context.Context, number int) (int64, error) {
	if millis, ok := v.created[number]; ok {
		return millis, nil
	}
	found, err := v.Store.JourneyVersion(ctx, v.Journey, number)
	if err != nil {
		return 0, err
	}
	if v.created == nil {
		v.created = make(map[int]int64)
	}
	v.created[number] = found.CreatedMillis
	return found.CreatedMillis, nil
}
