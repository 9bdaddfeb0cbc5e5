// Package spill keeps events in files while they cannot go where they belong.
// An open or a click comes once, from a person who will not repeat it. It must
// not be lost because Redis is away for a minute.
//
// A Writer appends events to a file and says so when they are on disk. When the
// way is free again the file is read back (Reader) and imported like any other,
// under a source that is the file's own. This process does it, or the next one
// on the same data directory, or an operator on any node.
//
// A file is a header and records, integers little-endian:
//
//	header = "SLSP", version, id (16 of a-z2-7), deployment (uint64), made at (ms, int64), CRC of these
//	record = length of what follows (uint32), CRC of length and what follows; then
//	         in version 1 an event as in a batch (sluice.AppendEvent), without its head;
//	         in version 2 items as in a batch that go to one log in one step
//
// A program that does not know version 2 leaves such files where they are.
//
// CRC is CRC-32C (Castagnoli), which processors compute. A record that is cut
// short or damaged ends the file: what follows it cannot be found.
package spill

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// Bounds of spilling.
const (
	// MaxFileBytes is where a file is ended and the next one begun.
	MaxFileBytes = 64 << 20

	// MaxDirBytes bounds the files of a directory together. Beyond it, events
	// are refused: the disk is needed for other things too.
	MaxDirBytes = 1 << 30
)

// Suffix is how the names of files end. DamagedSuffix comes behind it when the
// rest of a file could not be read.
const (
	Suffix        = ".spill"
	DamagedSuffix = ".damaged"
)

const (
	magic       = "SLSP"
	ofEvents    = 1 // versions
	ofItems     = 2
	idBytes     = 16
	headerBytes = len(magic) + 1 + idBytes + 8 + 8 + 4
	recordBytes = 8 // of a record, beside what it holds
)

// ErrFull says that the files are as large as they may be.
var ErrFull = errors.New("the spill files are full")

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Header names a file.
type Header struct {
	ID         string // 16 characters of a-z2-7
	Deployment string // the deployment of the events: a number in decimal (flow.Identify)
	Items      bool   // its records are items, not events
	Made       time.Time
}

func newID() string {
	random := make([]byte, 10)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").EncodeToString(random)
}

func (h *Header) append(dst []byte) ([]byte, error) {
	deployment, err := strconv.ParseUint(h.Deployment, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("deployment %q is no number: %w", h.Deployment, err)
	}
	start := len(dst)
	version := byte(ofEvents)
	if h.Items {
		version = ofItems
	}
	dst = append(append(dst, magic...), version)
	dst = append(dst, h.ID...)
	dst = binary.LittleEndian.AppendUint64(dst, deployment)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Made.UnixMilli()))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable)), nil
}

// parseHeader reads what append has written.
func parseHeader(b []byte) (Header, error) {
	if len(b) < headerBytes || string(b[:len(magic)]) != magic {
		return Header{}, errors.New("it is no spill file, or its beginning was never written")
	}
	version := b[len(magic)]
	if version != ofEvents && version != ofItems {
		return Header{}, fmt.Errorf("it is of version %d, this program reads %d and %d", version, ofEvents, ofItems)
	}
	body := headerBytes - 4
	if crc32.Checksum(b[:body], crcTable) != binary.LittleEndian.Uint32(b[body:]) {
		return Header{}, errors.New("its beginning is damaged")
	}
	at := len(magic) + 1
	h := Header{ID: string(b[at : at+idBytes]), Items: version == ofItems}
	at += idBytes
	h.Deployment = strconv.FormatUint(binary.LittleEndian.Uint64(b[at:]), 10)
	h.Made = time.UnixMilli(int64(binary.LittleEndian.Uint64(b[at+8:]))).UTC()
	return h, nil
}

// appendRecord appends a record.
func appendRecord(dst, record []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	crc := crc32.Update(crc32.Checksum(dst[start:], crcTable), crcTable, record)
	return append(binary.LittleEndian.AppendUint32(dst, crc), record...)
}
