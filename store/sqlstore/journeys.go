package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/journey"
	"sluice/store"
)

var _ store.JourneyStore = (*Store)(nil)

func noJourney(id string) error { return notFound("there is no journey %.64q", id) }

// addTries bounds how often a number for a new journey is looked for.
const addTries = 3

// AddJourney implements store.JourneyStore. Two that are added at once may look for the
// same number: then one of them looks again.
func (s *Store) AddJourney(ctx context.Context, j store.Journey) (store.Journey, error) {
	var err error
	for range addTries {
		j.Number, err = s.addJourney(ctx, &j)
		if _, refused := s.d.refusal(err); !refused {
			break
		}
		if _, there := s.Journey(ctx, j.ID); there == nil {
			err = errors.Join(invalid("there is a journey %.64q, perhaps an archived one; choose another id", j.ID), err)
			break
		}
	}
	if err != nil {
		return store.Journey{}, s.failed(err, "add journey %s in", j.ID)
	}
	j.Version, j.Revision = 0, 0
	return j, nil
}

func (s *Store) addJourney(ctx context.Context, j *store.Journey) (number int64, err error) {
	err = s.writeSmall(ctx, func(tx *txn) error {
		var many int64
		if err := tx.conn.QueryRowContext(ctx, query(s.d, "journey_last")).Scan(&many, &number); err != nil {
			return err
		}
		if many >= store.MaxJourneys {
			return invalid("there are %d journeys, archived ones included, and no more are possible, for none is ever removed; write what is wanted into the draft of one that is a draft, live or paused", many)
		}
		number++
		return tx.exec(ctx, "journey_add", number, j.ID, j.Name, j.Status, j.Draft, s.d.millis(j.CreatedMillis), s.d.millis(j.UpdatedMillis))
	})
	return number, err
}

// Journey implements store.JourneyStore.
func (s *Store) Journey(ctx context.Context, id string) (store.Journey, error) {
	return one(ctx, s, s.scanJourney, noJourney(id), "journey "+id, "journey_get", id)
}

// Journeys implements store.JourneyStore.
func (s *Store) Journeys(ctx context.Context, after string, limit int) ([]store.Journey, error) {
	all, err := list(ctx, s.d, s.reads, s.scanJourney, rawQuery(s.d, "journey_list"), after, limit)
	return all, s.failed(err, "list journeys in")
}

func (s *Store) scanJourney(scan scanner, j *store.Journey) error {
	err := scan(&j.Number, &j.ID, &j.Name, &j.Status, &j.Version, &j.Revision, &j.Draft, s.instant(&j.CreatedMillis), s.instant(&j.UpdatedMillis), &j.Hold, s.instant(&j.RestoredMillis), s.instant(&j.SkipUntilMillis))
	if j.Hold != restoredHold {
		j.RestoredMillis = 0
	}
	return err
}

// PutJourney implements store.JourneyStore.
func (s *Store) PutJourney(ctx context.Context, j store.Journey) error {
	err := s.writeSmall(ctx, func(tx *txn) error { return tx.putJourney(ctx, &j, j.Version) })
	return s.failed(err, "write journey %s in", j.ID)
}

// PutStatus implements store.JourneyStore.
func (s *Store) PutStatus(ctx context.Context, j store.Journey) (published int64, err error) {
	published, err = s.publish(ctx, func(tx *txn) error {
		err := tx.putJourney(ctx, &j, j.Version)
		if err == nil && j.Status == journey.StatusPaused && j.Hold != "" {
			err = tx.hold(ctx, j.Number, j.Hold)
		}
		if err != nil || j.SkipUntilMillis == 0 {
			return err
		}
		if err := tx.exec(ctx, "journey_skip_drop", j.Number); err != nil {
			return err
		}
		return tx.exec(ctx, "journey_skip_add", j.Number, s.d.millis(j.SkipUntilMillis))
	})
	if err != nil {
		return 0, s.failed(err, "write the status %s of journey %s in", j.Status, j.ID)
	}
	return published, nil
}

func (t *txn) putJourney(ctx context.Context, j *store.Journey, version int) error {
	n, err := t.changed(ctx, "journey_put", j.Name, j.Status, version, j.Draft, t.store.d.millis(j.UpdatedMillis), j.ID, j.Revision, j.Version)
	if err == nil && n != 1 {
		err = fmt.Errorf("it was changed since revision %d was read: %w", j.Revision, sluice.ErrConflict)
	}
	if err == nil && j.Status != journey.StatusPaused {
		err = t.exec(ctx, "journey_hold_drop", j.Number)
	}
	return err
}

// Held implements store.JourneyStore.
func (s *Store) Held(ctx context.Context) (int64, error) {
	return s.count(ctx, "count the journeys that stand in", rawQuery(s.d, "journeys_held"))
}

// HeldJourneys implements store.JourneyStore.
func (s *Store) HeldJourneys(ctx context.Context) (map[string]string, error) {
	held := make(map[string]string)
	err := s.each(ctx, rawQuery(s.d, "journeys_holds"), []any{store.MaxJourneys}, func(scan scanner) error {
		var id, why string
		err := scan(&id, &why)
		held[id] = why
		return err
	})
	return held, s.failed(err, "read which journeys stand in")
}

// holdJourneys pauses all that are live, with this Hold.
func (t *txn) holdJourneys(ctx context.Context, why string) error {
	d, now := t.store.d, t.store.now()
	live, err := list(ctx, d, t.conn, cell[int64], rawQuery(d, "journeys_live"), journey.StatusLive)
	if err != nil {
		return err
	}
	for _, number := range live {
		if err := t.exec(ctx, "journeys_hold", journey.StatusPaused, now, number); err != nil {
			return err
		}
		if err := t.hold(ctx, number, why); err != nil {
			return err
		}
	}
	return nil
}

// hold writes why a journey stands.
func (t *txn) hold(ctx context.Context, number int64, why string) error {
	if err := t.exec(ctx, "journey_hold_drop", number); err != nil {
		return err
	}
	why = t.store.d.text(strings.ToValidUTF8(why[:min(len(why), store.MaxHoldBytes)], ""))
	return t.exec(ctx, "journey_hold_add", number, why, t.store.now())
}

// restoredHold is why journeys stand behind a restore: what people got since is not all
// known, and an operator decides.
const restoredHold = "a backup was restored: people are where they were when it was made, and steps of since then are taken again; resume it, or stop it"

// Publish implements store.JourneyStore.
func (s *Store) Publish(ctx context.Context, j store.Journey, document string, names journey.Names) (version int, published int64, err error) {
	version = j.Version + 1
	text, err := json.Marshal(names)
	if err == nil {
		err = s.checkVersion(ctx, &j, names)
	}
	if err == nil {
		published, err = s.publish(ctx, func(tx *txn) error {
			if err := tx.putJourney(ctx, &j, version); err != nil {
				return err
			}
			return tx.exec(ctx, "journey_version_add", j.Number, version, document, string(text), s.d.millis(j.UpdatedMillis))
		})
	}
	if err != nil {
		return 0, 0, s.failed(err, "publish version %d of journey %s in", version, j.ID)
	}
	return version, published, nil
}

// maxFactNameRunes is what the column name of journey_facts takes.
const maxFactNameRunes = 255

// checkVersion checks the bounds of a version. They are counted beside the transaction:
// a publish of the same journey at the same time is refused by its revision.
func (s *Store) checkVersion(ctx context.Context, j *store.Journey, names journey.Names) error {
	for _, name := range slices.Concat(names.Events, names.Purchases, names.Attributes, names.Groups) {
		if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxFactNameRunes {
			return invalid("the name %.64q of a trigger is empty, no UTF-8, or longer than %d characters", name, maxFactNameRunes)
		}
	}
	if j.Version >= store.MaxVersions {
		return invalid("journey %.64q has %d versions, and no more are possible; go on with a new journey", j.ID, j.Version)
	}
	inUse, err := s.count(ctx, "count the versions of a journey in", rawQuery(s.d, "journey_versions_count"), j.Number)
	if err == nil && inUse >= store.MaxVersionsInUse {
		err = invalid("%d versions of journey %.64q are in use, and no more are possible: a version ends a quarter of an hour after the last person has left it; wait, or stop this journey and go on with a copy", inUse, j.ID)
	}
	return err
}

// errNothingEnds has a transaction undone that would raise the publish number for nothing.
var errNothingEnds = errors.New("the versions have ended before")

// EndVersions implements store.JourneyStore.
func (s *Store) EndVersions(ctx context.Context, journey int64, versions []int, millis int64) error {
	_, err := s.publish(ctx, func(tx *txn) error {
		ended := 0
		for _, v := range versions {
			n, err := tx.changed(ctx, "journey_version_end", s.d.millis(millis), journey, v)
			if err != nil {
				return err
			}
			ended += n
		}
		if ended == 0 {
			return errNothingEnds
		}
		return nil
	})
	if errors.Is(err, errNothingEnds) {
		return nil
	}
	return s.failed(err, "end versions %v of journey %d in", versions, journey)
}

// JourneyVersion implements store.JourneyStore.
func (s *Store) JourneyVersion(ctx context.Context, journey int64, version int) (store.JourneyVersion, error) {
	return one(ctx, s, s.scanJourneyVersion, notFound("journey %d has no version %d", journey, version),
		fmt.Sprintf("version %d of journey %d", version, journey), "journey_version_get", journey, version)
}

// VersionsInUse implements store.JourneyStore.
func (s *Store) VersionsInUse(ctx context.Context) ([]store.JourneyVersion, error) {
	all, err := list(ctx, s.d, s.reads, s.scanJourneyVersion, rawQuery(s.d, "journey_versions_used"))
	return all, s.failed(err, "list the versions of journeys in use in")
}

func (s *Store) scanJourneyVersion(scan scanner, v *store.JourneyVersion) error {
	var names string
	err := scan(&v.Journey, &v.Version, &v.Document, &names, s.instant(&v.CreatedMillis), s.instant(&v.EndedMillis))
	if err == nil {
		err = json.Unmarshal([]byte(names), &v.Names)
	}
	return err
}
