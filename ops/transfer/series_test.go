package transfer

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"sluice/store"
)

// seriesOf is a snapshot that has rows of the series.
type seriesOf struct {
	store.Snapshot
	rows []seriesRow
}

func (s seriesOf) Tables() []store.DumpTable {
	return []store.DumpTable{{Name: "other", Columns: []store.DumpColumn{{Name: "count"}}}, {Name: "series_hours", Columns: []store.DumpColumn{
		{Name: "app_id"}, {Name: "name"}, {Name: "kind"}, {Name: "bucket"}, {Name: "stripe"}, {Name: "count"}}}}
}

func (s seriesOf) Rows(_ context.Context, _ string, fn func([]store.Cell) error) error {
	for i, r := range s.rows {
		err := fn([]store.Cell{{Text: r.app}, {Text: r.name}, {Text: r.kind}, {Text: strconv.FormatInt(r.bucket, 10)}, {Text: strconv.Itoa(i)}, {Text: strconv.FormatInt(r.count, 10)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// The stripes of a bucket are one row.
func TestExportSeries(t *testing.T) {
	s := seriesOf{rows: []seriesRow{
		{"a", "opened", "mail", 3600000, 1}, {"a", "opened", "mail", 3600000, 2}, {"a", "opened", "mail", 7200000, 4},
		{"b", "x\"", "counter", 3600000, math.MaxInt64}, {"b", "x\"", "counter", 3600000, 5},
	}}
	for _, tt := range []struct {
		filter store.EventFilter
		format Format
		want   string
	}{
		{store.EventFilter{}, NDJSON, `{"app_id":"a","name":"opened","kind":"mail","time":"1970-01-01T01:00:00.000Z","count":3}
{"app_id":"a","name":"opened","kind":"mail","time":"1970-01-01T02:00:00.000Z","count":4}
{"app_id":"b","name":"x\"","kind":"counter","time":"1970-01-01T01:00:00.000Z","count":9223372036854775807}
`},
		{store.EventFilter{App: "a", FromMillis: 7200000}, CSV, "app_id,name,kind,time,count\na,opened,mail,1970-01-01T02:00:00.000Z,4\n"},
		{store.EventFilter{Kind: "mail", ToMillis: 3600000}, CSV, "app_id,name,kind,time,count\n"},
	} {
		var b strings.Builder
		n, err := ExportSeries(t.Context(), s, "series_hours", tt.filter, tt.format, &b)
		if err != nil || b.String() != tt.want {
			t.Errorf("%+v: %d rows, %v\ngot  %s\nwant %s", tt.filter, n, err, b.String(), tt.want)
		}
	}
}
