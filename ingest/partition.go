package ingest

import (
	"strings"
	"unsafe"

	"sluice"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
)

// partitionOf returns the partition of an event. An event that names a user
// goes where updates of that external id go, another one where updates of its
// address go (user.Key.Partition). So the events and updates of a person
// keep their order, in one log. An event of nobody goes anywhere.
//
// What our own pages have seen goes where its id says, if that names a partition.
func partitionOf(e *sluice.Event, raw string, partitions int) int {
	if e.Origin == sluice.OriginOwn {
		if p, ok := mail.ReactionPartition(e.ID); ok && p < partitions {
			return p
		}
	}
	switch {
	case e.User != "":
		return user.Key{Kind: user.KeyExternal, Name: e.User}.Partition(partitions)
	case e.Email != "":
		var small [sluice.MaxEmailBytes]byte
		return user.Key{Kind: user.KeyEmail, Name: addressKey(e.Email, small[:0])}.Partition(partitions)
	case e.Message != "":
		return int(hashText(e.Message) % uint64(partitions))
	}
	return int(hashText(raw) % uint64(partitions))
}

// addressKey returns an address as updates of users name it. A short one in ASCII
// is written to buf, if it has capital letters.
func addressKey(address string, buf []byte) string {
	upper := false
	for i := range len(address) {
		if address[i] >= 0x80 {
			if normal, ok := profile.NormalEmail(address); ok {
				return normal
			}
			return strings.ToLower(address)
		}
		upper = upper || address[i]-'A' <= 'Z'-'A'
	}
	switch {
	case !upper:
		return address
	case len(address) > cap(buf):
		return strings.ToLower(address)
	}
	for i := range len(address) {
		c := address[i]
		if c-'A' <= 'Z'-'A' {
			c |= 0x20
		}
		buf = append(buf, c)
	}
	return unsafe.String(unsafe.SliceData(buf), len(buf))
}

// partitionBefore returns the partition that the program of 0.1 gave to an event.
// What that program has begun, and a crash has left in a part of the logs, is gone
// on with by it: Router, Import.
func partitionBefore(e *sluice.Event, raw string, partitions int) int {
	key := e.User
	if key == "" {
		key = e.Email
	}
	if key == "" {
		key = e.Message
	}
	if key == "" {
		key = raw
	}
	return int(hashText(key) % uint64(partitions))
}

// hashText is FNV-1a, 64 bits, finished by a shift that mixes the high bits
// down. It decides what stands in logs: never change it.
func hashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h ^ h>>32
}
