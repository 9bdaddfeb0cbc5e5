package flow

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// take changes ways in one commit; a nil list clears those of a person. Records go along:
// they say which units are divided.
func (x *recordsUnderTest) take(want map[int64][]int, changes map[int64][]int) (words []string) {
	x.t.Helper()
	records, units := make(map[string]*Unit), make(map[string]*Unit)
	unit := func(number int64) *Unit {
		u := x.all.WaysOf(number)
		if units[u.key] == nil {
			if err := x.all.Read(x.t.Context(), []*Unit{u}); err != nil {
				x.t.Fatal(err)
			}
			units[u.key] = u
		}
		return units[u.key]
	}
	for _, number := range slices.Sorted(maps.Keys(changes)) {
		u := x.all.Of(number)
		if records[u.key] == nil {
			if err := x.all.Read(x.t.Context(), []*Unit{u}); err != nil {
				x.t.Fatal(err)
			}
			records[u.key] = u
		}
		if u = records[u.key]; !u.Set(number, recordOf(uint64(number))) {
			ways := unit(number)
			for _, b := range x.all.Divide(u) {
				records[b.key] = b
			}
			for _, b := range x.all.DivideWays(ways) {
				units[b.key] = b
			}
			records[x.all.Of(number).key].Set(number, recordOf(uint64(number)))
		}
		x.want[number] = recordOf(uint64(number))
		if changes[number] == nil {
			unit(number).ClearWays(number)
			delete(want, number)
		}
		for _, branch := range changes[number] {
			unit(number).Take(number, branch)
			if !slices.Contains(want[number], branch) {
				want[number] = append(want[number], branch)
			}
		}
		slices.Sort(want[number])
	}
	all := append(slices.Collect(maps.Values(records)), slices.Collect(maps.Values(units))...)
	next := x.at
	next.Major++
	operations := x.all.Operations(all)
	for _, o := range operations {
		if strings.HasSuffix(o.Words[1], ":ways") {
			words = append(words, o.Words[0])
		}
	}
	if dead, err := x.log.Commit(x.t.Context(), x.lease, &Commit{Follower: "journey", From: x.at, To: next, Operations: operations}, 1); err != nil || dead != 0 {
		x.t.Fatalf("commit: %d dead letters, %v", dead, err)
	}
	x.at = next
	return words
}

// Ways are what was taken, in lists and in rows, before and behind a division, however they
// are read.
func TestWaysAreWhatWasTaken(t *testing.T) {
	for name, people := range map[string]int64{"few": 40, "hundreds": 2 * ChunkRecords, "everybody": 2 * BlockRecords} {
		t.Run(name, func(t *testing.T) {
			x := newRecords(t, dial(t))
			random := rand.New(rand.NewPCG(1, uint64(people)))
			want := make(map[int64][]int)
			for range 30 {
				changes := make(map[int64][]int)
				for range 1 + random.IntN(120) {
					number := 1 + random.Int64N(people)
					switch random.IntN(8) {
					case 0:
						changes[number] = nil
					case 1:
						changes[number] = []int{random.IntN(30)}
					default:
						changes[number] = []int{random.IntN(3), 3 + random.IntN(8)}
					}
				}
				x.take(want, changes)
			}
			x.load()
			for number := int64(1); number <= people; number++ {
				if people > 5000 && number%7 != 0 {
					continue
				}
				got, err := x.log.WaysOf(t.Context(), 7, number)
				if err != nil || len(got)+len(want[number]) > 0 && !reflect.DeepEqual(got, want[number]) {
					t.Fatalf("person %d took %v, %v; want %v", number, got, err, want[number])
				}
			}
			if err := x.log.ClearJourneys(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if keys := do(t, x.log.redis, "KEYS", "*:journey:*"); keys != "[]" {
				t.Errorf("these are left: %s", keys)
			}
		})
	}
}

// One person who takes a branch costs some bytes, and what was taken before nothing.
func TestFewWaysAreWrittenAlone(t *testing.T) {
	x := newRecords(t, dial(t))
	want, all := make(map[int64][]int), make(map[int64][]int)
	for n := int64(1); n <= 3*BlockRecords; n++ {
		all[n] = []int{int(n % 11)}
	}
	x.take(want, all)
	if words := x.take(want, map[int64][]int{5: {2}}); !slices.Equal(words, []string{"SETRANGE"}) {
		t.Errorf("one branch more was written by %v", words)
	}
	if words := x.take(want, map[int64][]int{5: {2}}); len(words) > 0 {
		t.Errorf("what had been taken was written by %v", words)
	}
	if words := x.take(want, map[int64][]int{5: nil}); !slices.Equal(words, []string{"SETRANGE", "SETRANGE"}) {
		t.Errorf("to clear two branches was written by %v", words)
	}
	size := do(t, x.log.redis, "STRLEN", waysKey(x.log.partition.blockKey(7, 1)))
	if size != "705" {
		t.Errorf("the ways of a block by 11 branches have %s bytes, want 705", size)
	}
}

func TestWaysThatAreNoneAreRefused(t *testing.T) {
	x := newRecords(t, dial(t))
	for _, text := range []string{"x", "\x01123", "\x02"} {
		do(t, x.log.redis, "SET", waysKey(x.log.partition.chunkKey(7, 0)), text)
		if _, err := x.log.WaysOf(t.Context(), 7, 1); err == nil {
			t.Errorf("%q was read as ways", text)
		}
	}
}

// Pages have each person once, in the order of numbers, wherever one ends.
func TestPagesOfRecords(t *testing.T) {
	x := newRecords(t, dial(t))
	changes := make(map[int64]Record)
	for n := int64(1); n < ChunkRecords; n += 3 { // in blocks
		changes[n] = recordOf(uint64(n))
	}
	for n := int64(2 * ChunkRecords); n < 3*ChunkRecords; n += 501 { // a list, behind a chunk without anybody
		changes[n] = recordOf(uint64(n))
	}
	x.set(changes)
	want := slices.Sorted(maps.Keys(changes))
	for _, most := range []int{1000, 1 << 30} {
		var got []int64
		for after, pages := int64(0), 0; pages == 0 || after > 0; pages++ {
			many := 0
			next, err := x.log.PageOfRecords(t.Context(), 7, after, func(number int64, r *Record) bool {
				if *r != x.want[number] {
					t.Fatalf("the record of %d is %v, want %v", number, *r, x.want[number])
				}
				got = append(got, number)
				many++
				return many < most
			})
			if err != nil || pages > 100 {
				t.Fatal(err, pages)
			}
			after = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d people in pages, want %d", len(got), len(want))
		}
	}
}
