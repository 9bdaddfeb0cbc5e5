package flow

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// recordsUnderTest are the records of a journey in one partition, and a model of
// what they must be.
type recordsUnderTest struct {
	t     *testing.T
	log   *Log
	lease *Lease
	all   *Records
	want  map[int64]Record
	at    Reached
}

func newRecords(t *testing.T, r *Redis) *recordsUnderTest {
	t.Helper()
	p := Partitions(4)[1]
	x := &recordsUnderTest{t: t, log: NewLog(r, p), lease: leaseOn(t, r, p.leaseKey("journey")), want: make(map[int64]Record)}
	x.load()
	return x
}

// load begins anew, as a process does that takes the partition over, and compares
// what it finds with the model.
func (x *recordsUnderTest) load() {
	x.t.Helper()
	x.all = x.log.Records(7)
	found := make(map[int64]Record)
	err := x.all.Load(x.t.Context(), func(u *Unit) error {
		u.Each(func(number int64, r *Record) {
			if _, twice := found[number]; twice {
				x.t.Errorf("person %d has two records", number)
			}
			if number < u.First() || number >= u.First()+int64(u.Span()) {
				x.t.Errorf("person %d is in the unit of %d to %d", number, u.First(), u.First()+int64(u.Span())-1)
			}
			found[number] = *r
		})
		return nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
	if len(found) != len(x.want) {
		x.t.Errorf("%d records were found, want %d", len(found), len(x.want))
	}
	for number, r := range x.want {
		if found[number] != r {
			x.t.Fatalf("the record of %d is %v, want %v", number, found[number], r)
		}
	}
	for _, number := range []int64{-1, 0, 1, 2, BlockRecords, BlockRecords + 1, ChunkRecords, ChunkRecords + 1, 3 * ChunkRecords, 9 * ChunkRecords} {
		if r, err := x.log.RecordOf(x.t.Context(), 7, number); err != nil || r != x.want[number] {
			x.t.Fatalf("read alone, the record of %d is %v, want %v, %v", number, r, x.want[number], err)
		}
	}
}

// set changes records in one commit.
func (x *recordsUnderTest) set(changes map[int64]Record) {
	x.t.Helper()
	units := make(map[string]*Unit)
	unit := func(number int64) *Unit {
		u := x.all.Of(number)
		if units[u.key] == nil {
			if err := x.all.Read(x.t.Context(), []*Unit{u}); err != nil {
				x.t.Fatal(err)
			}
			units[u.key] = u
		}
		return units[u.key]
	}
	for number, r := range changes {
		if u := unit(number); !u.Set(number, r) {
			for _, b := range x.all.Divide(u) {
				units[b.key] = b
			}
			if !unit(number).Set(number, r) {
				x.t.Fatalf("a block has no room for %d", number)
			}
		}
		x.want[number] = r
		if r.IsZero() {
			delete(x.want, number)
		}
	}
	var all []*Unit
	for _, u := range units {
		all = append(all, u)
	}
	next := x.at
	next.Major++
	dead, err := x.log.Commit(x.t.Context(), x.lease, &Commit{Follower: "journey", From: x.at, To: next, Operations: x.all.Operations(all)}, 1)
	if err != nil || dead != 0 {
		x.t.Fatalf("commit: %d dead letters, %v", dead, err)
	}
	x.at = next
}

func recordOf(n uint64) (r Record) {
	binary.LittleEndian.PutUint64(r[:], n|1)
	binary.LittleEndian.PutUint64(r[8:], n*0x9e3779b97f4a7c15)
	return r
}

// Records are those that were set, whatever form they have by then: lists that
// grow, are divided, become blocks and lose people again.
func TestRecordsAreWhatWasSet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	x := newRecords(t, dial(t))
	forms := make(map[string]bool)
	for round := range 60 {
		changes := make(map[int64]Record)
		for range 1 + random.IntN(800) {
			number := 1 + random.Int64N(3*ChunkRecords)
			if round%2 == 0 { // a crowd in two blocks
				number = 1 + random.Int64N(2*BlockRecords)
			}
			changes[number] = recordOf(random.Uint64())
			if random.IntN(8) == 0 {
				changes[number] = Record{}
			}
		}
		x.set(changes)
		if round%6 == 5 {
			x.load()
		}
		for _, key := range []string{x.log.partition.chunkKey(7, 0), x.log.partition.blockKey(7, 0), x.log.partition.blockKey(7, 1)} {
			forms[formOf(do(t, x.log.redis, "STRLEN", key))] = true
		}
	}
	x.load()
	for _, form := range []string{"divided", "list", "block"} {
		if !forms[form] {
			t.Errorf("no key ever was of the form %s: the test does not see it", form)
		}
	}
}

// formOf names what has so many bytes.
func formOf(strlen string) string {
	switch n, _ := strconv.Atoi(strlen); {
	case n == 0:
		return "nothing"
	case n == len(dividedMark):
		return "divided"
	case n == denseBytes:
		return "block"
	}
	return "list"
}

// A journey that everybody is in costs at most 17 bytes a person, one of a random
// 1 % at most 24.
func TestRecordsAreSmall(t *testing.T) {
	const people, few = 12 * ChunkRecords, 40 * ChunkRecords / 100
	for _, c := range []struct {
		name    string
		numbers func(i int64) int64
		many    int
		most    float64
	}{
		{"everybody", func(i int64) int64 { return i + 1 }, people, 17},
		{"a random hundredth", func(i int64) int64 { return 1 + i*100 + rand.Int64N(100) }, few, 24},
	} {
		r := dial(t)
		x := newRecords(t, r)
		before := usedMemory(t, r)
		for i := int64(0); i < int64(c.many); {
			changes := make(map[int64]Record)
			for ; i < int64(c.many) && len(changes) < 8192; i++ {
				changes[c.numbers(i)] = recordOf(uint64(i))
			}
			x.set(changes)
		}
		if each := float64(usedMemory(t, r)-before) / float64(c.many); each > c.most {
			t.Errorf("%s: %.1f bytes a person, want at most %.0f", c.name, each, c.most)
		} else {
			t.Logf("%s: %.1f bytes a person", c.name, each)
		}
	}
}

func usedMemory(t *testing.T, r *Redis) (bytes int64) {
	t.Helper()
	info, err := r.Info(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(info["used_memory"], &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// One person who moves costs the append-only file some bytes, not the whole
// string, in a list with room and in a block.
func TestAFewChangesAreWrittenAlone(t *testing.T) {
	x := newRecords(t, dial(t))
	for _, people := range []int64{40, BlockRecords} {
		changes := make(map[int64]Record)
		for n := range people {
			changes[n+1] = recordOf(uint64(n))
		}
		x.set(changes)
		u := x.all.Of(5)
		if err := x.all.Read(t.Context(), []*Unit{u}); err != nil {
			t.Fatal(err)
		}
		u.Set(5, recordOf(99))
		all := x.all.Operations([]*Unit{u})
		if len(all) != 1 || all[0].Words[0] != "SETRANGE" || len(all[0].Words[3]) > listEntryBytes {
			t.Errorf("of %d people one moves by %.80s", people, strings.Join(all[0].Words, " "))
		}
	}
}

// A string that is neither a list nor a block is not read as one.
func TestRecordsThatAreNoneAreRefused(t *testing.T) {
	x := newRecords(t, dial(t))
	do(t, x.log.redis, "SET", x.log.partition.chunkKey(7, 0), "12345")
	u := x.all.Of(1)
	if err := x.all.Read(t.Context(), []*Unit{u}); err == nil || !strings.Contains(err.Error(), "5 bytes") {
		t.Errorf("read five bytes as records: %v", err)
	}
}

// Behind a restore nobody is in a journey, and facts of before count as read.
func TestClearJourneys(t *testing.T) {
	x := newRecords(t, dial(t))
	changes := make(map[int64]Record)
	for n := int64(1); n < 3*ChunkRecords; n += 20 {
		changes[n] = recordOf(uint64(n))
	}
	x.set(changes)
	if err := x.log.ClearJourneys(t.Context(), 1234); err != nil {
		t.Fatal(err)
	}
	x.want = make(map[int64]Record)
	x.load()
	if keys := do(t, x.log.redis, "KEYS", "*:journey:*"); keys != "[]" {
		t.Errorf("these are left: %s", keys)
	}
	if at, err := x.log.NoteOf(t.Context(), FactsNote); err != nil || at != "1234-0/0" {
		t.Errorf("facts were read up to %q, %v", at, err)
	}
}
