package storetest

import (
	"strconv"
	"testing"

	"sluice/store"
)

// testBadAmongMany has effects of thousands of rows and events, a few of which
// are refused. These are at the ends, side by side, alone, beside repeats, or
// all of them. The others go in, each once, and are counted.
func testBadAmongMany(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT NOT NULL, s VARCHAR(20) NOT NULL, CHECK (n >= 0)", store.TableSpec{Table: "among", Columns: []string{"n", "s"}})
	const many = 2000
	first := 0
	for name, bad := range map[string][]int{
		"the first": {0}, "the last": {many - 1}, "both ends of a piece": {511, 512}, "some": {3, 700, 701, 1999}, "all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			isBad := make(map[int]bool)
			for _, i := range bad {
				isBad[i] = true
			}
			e := store.Effect{}
			rows := store.TableRows{Table: table, Source: "list:test"}
			repeats, counted := 0, 0
			for i := range many {
				n := strconv.Itoa(first + i)
				spoil := bad == nil || isBad[i]
				ev := event(first + i)
				ev.Place.Index = i
				switch {
				case spoil:
					n = "-" + n + "1"
					ev.Kind = 99
				case i%100 == 50: // beside its original
					ev = event(first + i - 1)
					ev.Place.Index = i
					if bad == nil || isBad[i-1] {
						t.Fatal("the original is a bad one")
					}
					repeats++
				default:
					counted++
				}
				e.Events = append(e.Events, ev)
				rows.Cells = append(rows.Cells, num(n), text("x"))
				rows.Raw = append(rows.Raw, "element "+n)
			}
			e.Rows = []store.TableRows{rows}
			dead := len(bad)
			if bad == nil {
				dead = many
			}
			before, sum := f.count(t, "events"), f.sum(t)
			f.refuse(t, e, 2*(many-dead)-repeats, repeats, 2*dead)
			want(t, "events", f.count(t, "events"), before+counted)
			want(t, "counted", f.sum(t), sum+counted)
			want(t, "rows", f.Query(t, "SELECT COUNT(*) FROM among WHERE n >= "+strconv.Itoa(first))[0][0], strconv.Itoa(many-dead))
			first += many
		})
	}
}

// sum is what the series have counted.
func (f *fixture) sum(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(f.Query(t, "SELECT COALESCE(SUM(count), 0) FROM series_hours")[0][0])
	must(t, err)
	return n
}
