package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"sluice/flow"
)

// occupied is who is still inside versions of a journey that nobody enters any more, in
// one partition: by unit of records, in which of them somebody is.
//
// The idea. A version that a newer one has replaced, and each one of a journey that was
// stopped, is entered by nobody, for ever. As soon as nobody is inside, the partition
// says so in a note. The note goes with a commit, so no session that knew less commits
// after it, and it is in the next checkpoint with the records that it speaks of. Passed
// reads the checkpoints, and ends the version when those of all partitions say the same.
// So the end holds too where Redis goes back to a checkpoint.
//
// What was dropped. Looking through all records from time to time: units are read
// anyway when they change, and to remember 32 bytes of each that has somebody is less.
type occupied struct {
	units   map[occupiedUnit]versionSet
	many    [256]int // units with somebody inside, by place of the version
	changed bool     // for a version there is somebody now, or nobody any more
}

type occupiedUnit struct {
	first int64
	span  int
}

// versionSet has places of versions in records.
type versionSet [4]uint64

func (s *versionSet) add(place uint8)     { s[place/64] |= 1 << (place % 64) }
func (s *versionSet) drop(place uint8)    { s[place/64] &^= 1 << (place % 64) }
func (s *versionSet) has(place uint8) int { return int(s[place/64] >> (place % 64) & 1) }

// set notes of which versions people are inside in a unit.
func (l *occupied) set(u *flow.Unit, now versionSet) {
	key := occupiedUnit{u.First(), u.Span()}
	before := l.units[key]
	if now == before {
		return
	}
	for place := range l.many {
		was := l.many[place]
		l.many[place] += now.has(uint8(place)) - before.has(uint8(place))
		l.changed = l.changed || (was == 0) != (l.many[place] == 0)
	}
	switch {
	case now == versionSet{}:
		delete(l.units, key)
	case l.units == nil:
		l.units = map[occupiedUnit]versionSet{key: now}
	default:
		l.units[key] = now
	}
}

// enters reports whether people may enter a version by its place.
func (j *plans) enters(place uint8) bool { return !j.stopped && place == uint8(j.newest) }

// left are the versions that nobody enters and nobody is inside, by their numbers. There
// are none while people are yet to enter who were due before the last publish.
func (in *inside) left() (versions []int) {
	if in.owes() {
		return nil
	}
	for place, v := range in.versions {
		if !in.enters(place) && in.occupied.many[place] == 0 {
			versions = append(versions, v.number)
		}
	}
	slices.Sort(versions)
	return versions
}

// leftNote names the note of versions that nobody is inside: by number of the journey
// those of versions, as JSON.
const leftNote = "left"

func readLeft(text string) (versions map[int64][]int, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &versions)
	}
	if err != nil {
		err = fmt.Errorf("read which versions of journeys nobody is inside: %w", err)
	}
	return versions, err
}

// tellLeft commits the note if it is not what Redis has.
func (p *part) tellLeft(ctx context.Context) error {
	changed := !p.toldLeft
	for _, in := range p.journeys {
		changed = changed || in.occupied.changed
		in.occupied.changed = false
	}
	if !changed {
		return nil
	}
	versions := make(map[string][]int)
	for _, in := range p.journeys {
		if left := in.left(); len(left) > 0 {
			versions[strconv.FormatInt(in.number, 10)] = left
		}
	}
	text := ""
	if len(versions) > 0 {
		raw, err := json.Marshal(versions)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	if text != p.left {
		c := p.begin()
		c.notes = append(c.notes, p.log.Note(leftNote, text))
		if err := c.commit(ctx); err != nil {
			return err
		}
	}
	p.left, p.toldLeft = text, true
	return nil
}
