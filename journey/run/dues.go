package run

import (
	"math"

	"sluice/flow"
)

// never is the time of a unit in which nobody waits for a time.
const never = math.MaxUint32

// dues are the times of one journey in one partition: for each unit of records the
// earliest second at which somebody in it is due.
//
// The idea. This is all the index that a wave needs (docs/decisions/58). To look
// through the numbers of 10 million people takes some 20 µs, and who is found lies in
// the order of records and profiles. A time that is too early costs a read in vain;
// one that is too late would leave people standing. So a unit's time is taken anew from
// its records each time they are read or written, and from nothing else.
type dues struct {
	few    []uint32   // by chunk
	blocks [][]uint32 // by chunk, nil if it is not divided; by block of it
	from   int        // the chunk at which take goes on: each has its turn
}

// set notes the earliest time of a unit.
func (d *dues) set(u *flow.Unit, due uint32) {
	chunk := int((u.First() - 1) / flow.ChunkRecords)
	for len(d.few) <= chunk {
		d.few = append(d.few, never)
		d.blocks = append(d.blocks, nil)
	}
	if u.Span() == flow.ChunkRecords {
		d.few[chunk] = due
		return
	}
	if d.blocks[chunk] == nil {
		d.blocks[chunk] = make([]uint32, flow.ChunkBlocks)
		for i := range d.blocks[chunk] {
			d.blocks[chunk][i] = never
		}
	}
	d.blocks[chunk][(u.First()-1)/flow.BlockRecords%flow.ChunkBlocks] = due
}

// take returns the first persons of units in which somebody is due, in their order: all
// of a chunk or none, and chunks until there are as many as wanted. It goes on where it
// ended, so that a unit that cannot be worked off keeps none of the others waiting.
func (d *dues) take(now uint32, wanted int) (firsts []int64) {
	for range d.few {
		if d.from >= len(d.few) {
			d.from = 0
		}
		chunk := d.from
		first := int64(chunk)*flow.ChunkRecords + 1
		if d.few[chunk] <= now {
			firsts = append(firsts, first)
		}
		for i, due := range d.blocks[chunk] {
			if due <= now {
				firsts = append(firsts, first+int64(i)*flow.BlockRecords)
			}
		}
		d.from++
		if len(firsts) >= wanted {
			break
		}
	}
	return firsts
}

// next is the earliest time of all.
func (d *dues) next() uint32 {
	next := uint32(never)
	for chunk, due := range d.few {
		next = min(next, due)
		for _, due := range d.blocks[chunk] {
			next = min(next, due)
		}
	}
	return next
}
