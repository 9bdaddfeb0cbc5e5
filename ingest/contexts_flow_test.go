package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
)

// What a commit of journeys says of contexts becomes rows of its partition, in the order
// of the log, whether it comes in one transaction or in several; what cannot be read is a
// dead letter, and stops nothing.
func TestContextsBecomeRows(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		var source string
		appends := func(items ...[]byte) {
			b.Helper()
			batch := sluice.NewBatch(0)
			for _, item := range items {
				batch = append(batch, item...)
			}
			next := source + "x"
			_, err := p.e.logs[1].Append(b.Context(), "journeys", source, next, batch, false)
			b.must(err)
			source = next
		}
		item := func(number int64, entered uint32, ended int64, body string) []byte {
			return (&journey.Kept{Journey: 7, Number: number, Entered: entered, Occurrence: 3, EndedMillis: ended, Body: body}).Append(nil)
		}
		appends(item(1, 5, 0, `{"a":"<ü>"}`), item(2, 5, 0, `{"old":1}`))
		b.eventually("both are there", func() bool { return b.count("journey_context") == 2 })
		appends(item(1, 5, 1_700_000_000_000, ""), sluice.AppendItem(nil, sluice.ItemContext, func(to []byte) []byte { return append(to, 1) }))
		appends(item(2, 5, 1_700_000_000_000, ""), item(2, 9, 0, `{"new":1}`), item(3, 9, 0, `{}`))
		b.eventually("all are there", func() bool { return b.count("journey_context") == 3 && b.count("dead_letters") == 1 })
		var got []string
		for _, row := range b.query("SELECT part, number, journey, entered, occurrence, body, CASE WHEN ended IS NULL THEN 'inside' ELSE 'left' END FROM journey_context ORDER BY number") {
			got = append(got, strings.TrimRight(row, "|"))
		}
		want := []string{`1|1|7|5|3|{"a":"<ü>"}|left`, `1|2|7|9|3|{"new":1}|inside`, `1|3|7|9|3|{}|inside`}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Errorf("got %q, want %q", got, want)
		}
	})
}
