package sluice

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

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
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", once, index))
	return fmt.Sprintf("%0*x", messageClockDigits, millis&(1<<48-1)) + hex.EncodeToString(sum[:])[:MessageIDBytes-messageClockDigits]
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
