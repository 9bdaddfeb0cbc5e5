package flow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Bounds of draining hashes.
const (
	// drainEvery is how often a quiet server is drained: counts of one hash
	// that come within it are one field of one element.
	drainEvery = time.Second

	// One call takes at most so much and one hash more, 1 to 2 ms of Redis.
	drainKeys   = 250
	drainFields = 1000
	drainBytes  = 512 << 10

	// maxFieldBytes bounds a field and its value together. A larger one is left
	// where it is.
	maxFieldBytes = 4 << 10
)

// drainBounds are the arguments of drain.lua that do not change.
var drainBounds = []string{strconv.Itoa(drainKeys), strconv.Itoa(drainFields), strconv.Itoa(drainBytes), strconv.Itoa(maxFieldBytes)}

// NewHashes returns the foreign hashes of counters of a server. They are known
// by the set that has the keys of the dirty ones: producers HINCRBY a hash,
// then SADD its key. It asks the server for their id.
//
// The idea. They are read as a List is, but held in another way. The members of
// the set are pending, and drain.lua moves the counts of their hashes to the
// next chunk, one element a hash. A count is in its hash or in a chunk, never
// in both or neither, so everything said of lists is true of counts.
//
// Many servers have a set of the same name, so hashes are named by an id beside
// it, in Redis. The cursor in the database goes with the server: its address
// and its place in the configuration may change.
//
// The order of the producers. Between SADD and a later HINCRBY, a drain finds
// no count, and the key is no longer dirty. That count stays in its hash until
// the key is marked the next time. HINCRBY first, or both in MULTI, leaves no
// such moment.
//
// What was dropped. Renaming the set, then reading the hashes beside it. Until
// a hash is gone its counts still move, so reading and deleting it would have
// to be one script all the same. Reading huge hashes by HSCAN: it may show a
// field twice, and its cursor means nothing once fields are deleted. HRANDFIELD
// takes any fields, which is enough.
func NewHashes(ctx context.Context, r *Redis, dirty string) (*List, error) {
	keys, err := newListKeys("hashes", dirty)
	if err != nil {
		return nil, err
	}
	answer, err := r.named(ctx, keys)
	if err != nil {
		return nil, err
	}
	return &List{redis: r, keys: keys, id: answer, name: dirty + "@" + answer, side: Left}, nil
}

// FindHashes is NewHashes for callers that only look. Hashes that were never
// drained have no id yet; they are nil.
func FindHashes(ctx context.Context, r *Redis, dirty string) (*List, error) {
	keys, err := newListKeys("hashes", dirty)
	if err != nil {
		return nil, err
	}
	l := &List{redis: r, keys: keys, name: dirty, side: Left}
	state, err := l.state(ctx, "id")
	if err != nil || state[0] == "" {
		return nil, err
	}
	l.id, l.name = state[0], dirty+"@"+state[0]
	return l, nil
}

func (r *Redis) named(ctx context.Context, keys listKeys) (string, error) {
	return run(ctx, r, "name the hashes of set "+keys.list, "named", []string{keys.stateKey()}, []string{strings.ToLower(rand.Text()[:12])}, rueidis.RedisResult.ToString)
}

// CheckKeys returns why the hashes cannot be drained on this Redis, if all their keys
// begin with a text. On a cluster one script takes the keys from the set and the
// counts from the hashes, so all of them must be in one slot: they need one hash tag.
func (l *List) CheckKeys(prefix string) error {
	if tag := hashTag(l.keys.list); l.redis.oneServer() || tag != l.keys.list && hashTag(prefix) == tag {
		return nil
	}
	return fmt.Errorf("the set %s and hashes whose keys begin with %q are in different slots of the cluster, and no script can drain them: "+
		"give all of them one hash tag, such as dirty: '{counts}%s' and key: '{{counts}}...', or keep them on a server that is no cluster", l.keys.list, prefix, l.keys.list)
}

// nextDrain returns when hashes are drained the next time: at once if more is
// pending, else at the next full second. Those of other servers are drained
// then too, so that one transaction has them all.
func nextDrain(now time.Time, more bool) time.Time {
	if more {
		return now
	}
	return now.Add(drainEvery - now.Sub(now.Truncate(drainEvery)))
}

// Hash is what one element of hashes holds: fields of a hash, or the reason why
// there are none of this key.
type Hash struct {
	Key    string
	Fields []HashField
	Reason string // not empty: the key was left as it is, but is dirty no more
}

// HashField is a field and its value, as they stood in the hash.
type HashField struct{ Name, Value string }

// An element is a letter and texts, each written as its length in decimal, a
// colon, its bytes and a comma. It is "h" and key, field, value, field,
// value..., or "x" and key, reason. They are texts and not integers, so that an
// operator can read a dead letter.
const (
	elementOfHash   = 'h'
	elementOfReason = 'x'
)

var errNoHash = errors.New("it is not written as flow writes hashes")

// ParseHash reads an element into h and uses h's memory again. The texts of h
// share memory with the element.
func ParseHash(element string, h *Hash) error {
	*h = Hash{Fields: h.Fields[:0]}
	if element == "" {
		return errNoHash
	}
	kind, rest := element[0], element[1:]
	var ok bool
	if h.Key, rest, ok = cutCounted(rest); !ok {
		return errNoHash
	}
	switch kind {
	case elementOfReason:
		if h.Reason, rest, ok = cutCounted(rest); !ok || rest != "" {
			return errNoHash
		}
	case elementOfHash:
		for rest != "" {
			var f HashField
			if f.Name, rest, ok = cutCounted(rest); !ok {
				return errNoHash
			}
			if f.Value, rest, ok = cutCounted(rest); !ok {
				return errNoHash
			}
			h.Fields = append(h.Fields, f)
		}
	default:
		return errNoHash
	}
	return nil
}

// Element writes what ParseHash reads.
func (h *Hash) Element() string {
	var b strings.Builder
	add := func(s string) { b.WriteString(strconv.Itoa(len(s)) + ":" + s + ",") }
	if h.Reason != "" {
		b.WriteByte(elementOfReason)
		add(h.Key)
		add(h.Reason)
		return b.String()
	}
	b.WriteByte(elementOfHash)
	add(h.Key)
	for _, f := range h.Fields {
		add(f.Name)
		add(f.Value)
	}
	return b.String()
}

func cutCounted(s string) (text, rest string, ok bool) {
	length, rest, ok := strings.Cut(s, ":")
	if !ok {
		return "", "", false
	}
	n, err := strconv.ParseUint(length, 10, 31)
	if err != nil || n >= uint64(len(rest)) || rest[n] != ',' {
		return "", "", false
	}
	return rest[:n], rest[n+1:], true
}

// ParseCount reads a value as HINCRBY does, which is stricter than strconv.
func ParseCount(value string) (int64, bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == value
}

// countAgain puts the counts of a dead letter back into their hash.
func (l *List) countAgain(ctx context.Context, name string, element []byte) error {
	verb := "count again in " + l.String()
	var h Hash
	if err := ParseHash(string(element), &h); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if err := l.CheckKeys(h.Key); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	var args []string
	for _, f := range h.Fields {
		if n, ok := ParseCount(f.Value); !ok || n == math.MinInt64 {
			return fmt.Errorf("%s: field %q has the value %.80q, which HINCRBY cannot add; drop it", verb, f.Name, f.Value)
		}
		args = append(args, f.Name, f.Value)
	}
	_, err := l.redis.callInt(ctx, verb, "count", []string{l.keys.list, l.keys.replayKey(name), h.Key}, args)
	return err
}
