package sluice

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// MessageIDBytes is the length of a message's id: 12 hexadecimal digits of
// the time in ms, then 20 random ones.
const MessageIDBytes = 32

// NewMessageID makes a message's id.
func NewMessageID(nowMillis int64) string {
	var id [MessageIDBytes / 2]byte
	binary.BigEndian.PutUint64(id[:], uint64(nowMillis)<<16)
	_, _ = rand.Read(id[6:]) // never fails (crypto/rand)
	return hex.EncodeToString(id[:])
}

// NamedMessageID makes the id of a message of a request that has a name: always
// the same for the same time, name and index.
func NamedMessageID(millis int64, once string, index int) string {
	name := strconv.AppendInt(append(append(make([]byte, 0, 96), once...), '/'), int64(index), 10)
	sum := sha256.Sum256(name)
	var id [MessageIDBytes / 2]byte
	binary.BigEndian.PutUint64(id[:], uint64(millis)<<16)
	copy(id[messageClockDigits/2:], sum[:])
	return hex.EncodeToString(id[:])
}

// PlacedMessageID makes the id of a message that is one of many of a time: always the same
// for the same time, place and name. Ids of a time are in the order of the lower 24 bits of
// their places, so a ledger that is kept in the order of ids gets neighbours together.
func PlacedMessageID(millis int64, place uint32, name []byte) string {
	sum := sha256.Sum256(name)
	var id [MessageIDBytes / 2]byte
	binary.BigEndian.PutUint64(id[:], uint64(millis)<<16)
	binary.BigEndian.PutUint32(id[messageClockDigits/2:], place<<8)
	copy(id[messageClockDigits/2+3:], sum[:])
	return hex.EncodeToString(id[:])
}

// MessageTime returns the time that a message's id begins with.
func MessageTime(id string) time.Time {
	if !ValidMessageID(id) {
		return time.Time{}
	}
	millis, _ := strconv.ParseInt(id[:messageClockDigits], 16, 64) // it is hexadecimal
	return time.UnixMilli(millis)
}

// messageClockDigits of a message's id are its time.
const messageClockDigits = 12

// ValidMessageID reports whether a text has the form of a message's id.
func ValidMessageID(id string) bool {
	if len(id) != MessageIDBytes {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// NewUUID returns a UUID of version 7 (RFC 9562, 5.7). Their order is that of the quarters
// of a microsecond in which they were made (6.2, method 3): two changes of one millisecond
// stay in their order in the audit log.
func NewUUID(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	part := uint64(now.Nanosecond()) % 1e6 << 12 / 1e6 // of the millisecond, in 12 bits
	b[6], b[7] = byte(part>>8)|0x70, byte(part)
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
