package sluice

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in a log. In a partition's log it is the id of a Redis
// Stream entry: Major is its milliseconds, Minor its sequence number. In a
// foreign list it is (number of the held chunk, elements of it consumed).
// The zero Position stands before everything.
type Position struct {
	Major uint64
	Minor uint64
}

// Compare returns -1, 0 or 1, like cmp.Compare.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Major, q.Major); c != 0 {
		return c
	}
	return cmp.Compare(p.Minor, q.Minor)
}

// Before reports whether p comes earlier in the log than q.
func (p Position) Before(q Position) bool { return p.Compare(q) < 0 }

// IsZero reports whether p stands before everything.
func (p Position) IsZero() bool { return p == Position{} }

// String returns "major-minor", the form of a Redis Stream id.
func (p Position) String() string {
	return strconv.FormatUint(p.Major, 10) + "-" + strconv.FormatUint(p.Minor, 10)
}

// ParsePosition reads what String wrote. The empty text is the zero Position.
func ParsePosition(s string) (Position, error) {
	if s == "" {
		return Position{}, nil
	}
	major, minor, ok := strings.Cut(s, "-")
	if !ok {
		return Position{}, fmt.Errorf("parse position %q: want MAJOR-MINOR", s)
	}
	a, err := strconv.ParseUint(major, 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("parse position %q: %w", s, err)
	}
	b, err := strconv.ParseUint(minor, 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("parse position %q: %w", s, err)
	}
	return Position{Major: a, Minor: b}, nil
}
