package flow

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// The ways of people: which branches they took in the occurrence that their records
// are about.
//
// The idea. Beside the string of each unit of records stands one of bits, in the same
// slot and committed with it. It has a row of 64 bytes for each branch of the plan, and
// in a row a bit for each person of a block. With 11 branches that is 705 bytes a block,
// 1.5 bytes a person. Few people, and plans of which most branches are hardly taken,
// have a list instead, of the number of a person and a branch. Whichever is smaller.
//
// The invariants. A unit of ways is a Unit: it is read, changed and committed as those
// of records are, and divided when its records are. Branches are numbered by the plan of
// the version that the record names. What a person took before is cleared when the
// person enters, so bits never speak of two occurrences.
//
// What was dropped. A larger record: 2 bytes more take a block out of its size class of
// 8 KiB into that of 10 KiB, 4 bytes a person, also in journeys without branches; and
// the largest plan has 10,200 branches. Rows by person: the width would be that of the
// largest version, and each unit would have to be written anew when that grows.
const (
	waysList = 1 // the first byte: entries of a person's offset and a branch follow
	waysRows = 2 // rows follow, from branch 0 on

	wayEntryBytes = 4
	rowBytes      = (BlockRecords + 7) / 8

	// freeWay is the branch of an entry that is free. Plans have fewer: 200 steps of at
	// most 51 ways out.
	freeWay = 1<<16 - 1

	// waysBytesAtMost bounds a unit of ways: the rows of the largest plan.
	waysBytesAtMost = 1 + 200*51*rowBytes
)

// waysKey is that of the ways beside a unit of records.
func waysKey(unit string) string { return unit + ":ways" }

// ways is the unit of the ways of the people of a unit.
func (u *Unit) ways() *Unit {
	return &Unit{key: waysKey(u.key), first: u.first, span: u.span, isWays: true}
}

// WaysOf returns the unit, not read yet, that has the ways of a person.
func (r *Records) WaysOf(number int64) *Unit { return r.Of(number).ways() }

// Has reports whether a person is one of those whom it is for.
func (u *Unit) Has(number int64) bool {
	return u != nil && number >= u.first && number < u.first+int64(u.span)
}

// Size is how many bytes the string has.
func (u *Unit) Size() int { return len(u.data) }

// IsWays reports whether a unit has ways, not records.
func (u *Unit) IsWays() bool { return u.isWays }

// WaysOf reads the branches that one person took in a journey, in their order, without a
// lease and without Load. It may be older than a commit that is under way.
func (l *Log) WaysOf(ctx context.Context, journey int, number int64) ([]int, error) {
	if number < 1 {
		return nil, nil
	}
	r := l.Records(journey)
	u := r.chunk(int((number - 1) / ChunkRecords))
	units := []*Unit{u.ways(), r.block((number - 1) / BlockRecords).ways()}
	if err := r.Read(ctx, units); err != nil { // that of the chunk is gone once it is divided
		return nil, err
	}
	if taken := units[1].Taken(number); len(taken) > 0 {
		return taken, nil
	}
	return units[0].Taken(number), nil
}

// validWays reports whether its bytes are what a unit of ways may have.
func (u *Unit) validWays() bool {
	switch {
	case len(u.data) == 0:
		return true
	case len(u.data) > waysBytesAtMost:
		return false
	case u.data[0] == waysRows:
		return u.span == BlockRecords && (len(u.data)-1)%rowBytes == 0
	}
	return u.data[0] == waysList && (len(u.data)-1)%wayEntryBytes == 0
}

// inRows reports whether it has rows.
func (u *Unit) inRows() bool { return len(u.data) > 0 && u.data[0] == waysRows }

// eachWay calls f for each branch that somebody took, with where it stands: the entry of
// a list, or the byte of a row. offset is that of the person.
func (u *Unit) eachWay(f func(at, offset, branch int)) {
	if u.inRows() {
		for at := 1; at < len(u.data); at++ {
			for b := u.data[at]; b != 0; b &= b - 1 {
				f(at, (at-1)%rowBytes*8+bits.TrailingZeros8(b), (at-1)/rowBytes)
			}
		}
		return
	}
	for at := 1; at+wayEntryBytes <= len(u.data); at += wayEntryBytes {
		if branch := binary.LittleEndian.Uint16(u.data[at+2:]); branch != freeWay {
			f(at, int(binary.LittleEndian.Uint16(u.data[at:])), int(branch))
		}
	}
}

// Taken are the branches that a person took, in the order of their numbers.
func (u *Unit) Taken(number int64) (branches []int) {
	offset := int(number - u.first)
	if u.inRows() {
		for at := 1 + offset/8; at < len(u.data); at += rowBytes {
			if u.data[at]>>(offset%8)&1 != 0 {
				branches = append(branches, (at-1)/rowBytes)
			}
		}
		return branches
	}
	u.eachWay(func(_, of, branch int) {
		if of == offset {
			branches = append(branches, branch)
		}
	})
	slices.Sort(branches)
	return branches
}

// Take notes that a person took a branch.
func (u *Unit) Take(number int64, branch int) {
	offset := int(number - u.first)
	if !u.inRows() && u.takeInList(offset, branch) {
		return
	}
	if have := (len(u.data) - 1) / rowBytes; branch >= have {
		u.data = append(u.data, make([]byte, (branch+1-have)*rowBytes)...)
		u.whole = true
	}
	at := 1 + branch*rowBytes + offset/8
	if bit := byte(1) << (offset % 8); u.data[at]&bit == 0 {
		u.data[at] |= bit
		u.changed = append(u.changed, at)
	}
}

// takeInList notes it in a list. False: it has rows now.
func (u *Unit) takeInList(offset, branch int) bool {
	room, last := -1, branch
	for at := 1; at+wayEntryBytes <= len(u.data); at += wayEntryBytes {
		of, b := int(binary.LittleEndian.Uint16(u.data[at:])), int(binary.LittleEndian.Uint16(u.data[at+2:]))
		switch {
		case b == freeWay:
			room = at
		case of == offset && b == branch:
			return true
		default:
			last = max(last, b)
		}
	}
	if room < 0 {
		entries := len(u.data) / wayEntryBytes
		more := max(entries/8, 1)
		if u.span == BlockRecords && (entries+more)*wayEntryBytes >= (last+1)*rowBytes {
			u.toRows(last + 1)
			return false
		}
		if len(u.data) == 0 {
			u.data = []byte{waysList}
		}
		room = len(u.data)
		for range more {
			u.data = binary.LittleEndian.AppendUint32(u.data, freeWay<<16)
		}
		u.whole = true
	}
	binary.LittleEndian.PutUint16(u.data[room:], uint16(offset))
	binary.LittleEndian.PutUint16(u.data[room+2:], uint16(branch))
	u.changed = append(u.changed, room)
	return true
}

// toRows makes rows of a list.
func (u *Unit) toRows(branches int) {
	rows := make([]byte, 1+branches*rowBytes)
	rows[0] = waysRows
	u.eachWay(func(_, offset, branch int) { rows[1+branch*rowBytes+offset/8] |= 1 << (offset % 8) })
	u.data, u.whole = rows, true
}

// ClearWays forgets what a person took.
func (u *Unit) ClearWays(number int64) {
	offset := int(number - u.first)
	if u.inRows() {
		for at := 1 + offset/8; at < len(u.data); at += rowBytes {
			if bit := byte(1) << (offset % 8); u.data[at]&bit != 0 {
				u.data[at] &^= bit
				u.changed = append(u.changed, at)
			}
		}
		return
	}
	u.eachWay(func(at, of, _ int) {
		if of == offset {
			binary.LittleEndian.PutUint16(u.data[at+2:], freeWay)
			u.changed = append(u.changed, at)
		}
	})
}

// DivideWays divides the ways of a chunk whose records are divided: they are in the
// units returned, which are written together with it.
func (r *Records) DivideWays(u *Unit) (units []*Unit) {
	for _, b := range r.blocks(int((u.first - 1) / ChunkRecords)) {
		units = append(units, b.ways())
	}
	u.eachWay(func(_, offset, branch int) {
		units[offset/BlockRecords].Take(u.first+int64(offset), branch)
	})
	u.whole, u.data, u.changed = len(u.data) > 0, nil, nil
	return units
}

// waysOperations write what was changed in a unit of ways.
func (u *Unit) waysOperations() (all []Operation) {
	keys := []string{u.key}
	switch {
	case len(u.data) == 0:
		return []Operation{{Keys: keys, Words: []string{"DEL", u.key}}}
	case u.rewrites():
		return []Operation{{Keys: keys, Words: []string{"SET", u.key, rueidis.BinaryString(u.data)}}}
	}
	size := wayEntryBytes
	if u.inRows() {
		size = 1
	}
	for _, at := range u.changed {
		all = append(all, Operation{Keys: keys, Words: []string{"SETRANGE", u.key, strconv.Itoa(at), rueidis.BinaryString(u.data[at : at+size])}})
	}
	return all
}
