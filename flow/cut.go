package flow

import (
	"encoding/binary"

	"sluice"
)

// fits reports whether a part fits one batch, or is a single item.
func (p *Part) fits() bool {
	return p.Count <= 1 || len(p.Items) <= sluice.MaxBatchBytes && p.Count <= sluice.MaxBatchItems
}

// cutParts cuts parts that are too large for a batch into several, in their order.
// It returns parts itself if there is none.
func cutParts(parts []Part) []Part {
	for i := range parts {
		if parts[i].fits() {
			continue
		}
		cut := make([]Part, i, len(parts)+len(parts[i].Items)/sluice.MaxBatchBytes+1)
		copy(cut, parts)
		for ; i < len(parts); i++ {
			cut = parts[i].cut(cut)
		}
		return cut
	}
	return parts
}

// cut appends the pieces of a part.
func (p *Part) cut(pieces []Part) []Part {
	if p.fits() {
		return append(pieces, *p)
	}
	return cutItems(pieces, p.Partition, p.Items)
}

// cutItems appends items in pieces: at most sluice.MaxBatchBytes and
// sluice.MaxBatchItems each, or one item. Data that is no item ends in the last
// piece, so that the reader of the batch reports it.
func cutItems(pieces []Part, partition int, items []byte) []Part {
	from, at, count := 0, 0, 0
	for len(items)-at >= sluice.ItemHeaderBytes {
		size := 4 + int(binary.LittleEndian.Uint32(items[at:]))
		if size > len(items)-at {
			break
		}
		if count > 0 && (at+size-from > sluice.MaxBatchBytes || count == sluice.MaxBatchItems) {
			pieces = append(pieces, Part{Partition: partition, Items: items[from:at], Count: count})
			from, count = at, 0
		}
		at, count = at+size, count+1
	}
	return append(pieces, Part{Partition: partition, Items: items[from:], Count: count})
}
