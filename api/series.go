package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/timetext"
	"sluice/store"
)

// Bounds of reading series.
const (
	// maxSeriesRows bounds the rows of an answer, maxSeriesRead those that are
	// read for it: days of a time zone are added up from hours.
	maxSeriesRows = 100_000
	maxSeriesRead = 500_000

	parallelSeries    = 4
	seriesReadTimeout = 20 * time.Second

	defaultHours = 24
	defaultDays  = 30
)

// seriesRequest is a request for series, understood.
type seriesRequest struct {
	query  store.SeriesQuery
	zone   *time.Location
	days   bool
	asCSV  bool
	from   time.Time // the first bucket
	to     time.Time // the end of the last
	zoned  bool      // days of a zone, added up from hours
	byWhat []string  // what is told apart: app_id, name, kind
}

// seriesRow is a row of the answer. What is not told apart is left out.
type seriesRow struct {
	Time  string  `json:"time"`
	App   *string `json:"app_id,omitempty"`
	Name  *string `json:"name,omitempty"`
	Kind  *string `json:"kind,omitempty"`
	Count int64   `json:"count"`
}

// seriesAnswer is the body of the answer. Buckets in which nothing was counted
// have no row.
type seriesAnswer struct {
	From   string      `json:"from"`
	To     string      `json:"to"`
	Step   string      `json:"step"`
	Series []seriesRow `json:"series"`
}

// series is GET /v1/series (INTERFACES.md, section 6).
func (q *request) series() (any, error) {
	wanted, err := readSeriesRequest(q.Request, q.s.clock.Now())
	if err != nil {
		return nil, err
	}
	rows, err := q.readSeries(wanted)
	switch {
	case err != nil:
		return nil, err
	case wanted.asCSV:
		return document{"text/csv; charset=utf-8; header=present", wanted.csv(rows)}, nil
	}
	return seriesAnswer{From: wanted.from.Format(time.RFC3339), To: wanted.to.Format(time.RFC3339),
		Step: map[bool]string{false: "hour", true: "day"}[wanted.days], Series: rows}, nil
}

// readSeries asks the database and adds hours up to days, if need be.
func (q *request) readSeries(wanted *seriesRequest) ([]seriesRow, error) {
	var found []store.SeriesRow
	err := q.readCounts("series", func(ctx context.Context) (err error) {
		found, err = q.Series.Series(ctx, wanted.query)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) == wanted.query.Limit {
		return nil, errTooManyRows()
	}
	if wanted.zoned {
		if found, err = addUpDays(found, wanted); err != nil {
			return nil, err
		}
	}
	if len(found) > maxSeriesRows {
		return nil, errTooManyRows()
	}
	return wanted.rows(found), nil
}

// readCounts calls read, which asks the database for counts: a few at a time, and each
// within a time.
func (q *request) readCounts(what string, read func(ctx context.Context) error) error {
	done, err := takeAny(q.s.seriesSlots, "requests for counts are being answered")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(q.Context(), seriesReadTimeout)
	defer cancel()
	if err := read(ctx); err != nil {
		q.s.log.Warn("counts not read", "id", idOf(q.w), "of", what, "error", err)
		return refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; ask again, or for less")
	}
	return nil
}

func errTooManyRows() error {
	return refusal(sluice.CodeInvalid, "more than %d rows; ask for a shorter range, for one app_id or name, or tell less apart (by)", maxSeriesRows)
}

// addUpDays adds hours up to the days of a zone, and quarters of an hour where a day
// begins within one. An hour in which a day begins, and of which no quarter is
// known, belongs to neither day: then no sum would be true.
func addUpDays(hours []store.SeriesRow, wanted *seriesRequest) ([]store.SeriesRow, error) {
	var days []store.SeriesRow
	at := make(map[store.SeriesRow]int) // where a row of a day is, by all but its count
	for _, h := range hours {
		from, length := time.UnixMilli(h.Millis), time.Hour
		if h.Quarter > 0 {
			length = time.Hour / sluice.Quarters
			from = from.Add(time.Duration(h.Quarter-1) * length)
		}
		day := timetext.StartOfDay(from.In(wanted.zone))
		last := timetext.StartOfDay(from.Add(length - time.Millisecond).In(wanted.zone))
		switch {
		case !last.Equal(day) && h.Count != 0:
			return nil, refusal(sluice.CodeInvalid, "a day of %s begins within the hour from %s, of which something was counted by the hour alone (in hashes, or by a version before 0.2.0); ask for step=hour, or for days that begin later",
				wanted.zone, time.UnixMilli(h.Millis).UTC().Format(time.RFC3339))
		case day.Before(wanted.from) || !day.Before(wanted.to):
			continue // the rest of an hour at an end of the range
		}
		h.Millis, h.Quarter = day.UnixMilli(), 0
		count := h.Count
		h.Count = 0
		i, ok := at[h]
		if !ok {
			i = len(days)
			at[h] = i
			days = append(days, h)
		}
		days[i].Count = sluice.AddCount(days[i].Count, count)
	}
	slices.SortStableFunc(days, func(a, b store.SeriesRow) int {
		if a.Millis != b.Millis {
			return int(min(max(a.Millis-b.Millis, -1), 1))
		}
		return strings.Compare(a.App+"\x00"+a.Name+"\x00"+a.Kind, b.App+"\x00"+b.Name+"\x00"+b.Kind)
	})
	return days, nil
}

// rows makes the rows of the answer.
func (q *seriesRequest) rows(found []store.SeriesRow) []seriesRow {
	rows := make([]seriesRow, len(found))
	for i := range found {
		f := &found[i]
		rows[i] = seriesRow{Time: time.UnixMilli(f.Millis).In(q.zone).Format(time.RFC3339), Count: f.Count}
		if q.query.ByApp {
			rows[i].App = &f.App
		}
		if q.query.ByName {
			rows[i].Name = &f.Name
		}
		if q.query.ByKind {
			rows[i].Kind = &f.Kind
		}
	}
	return rows
}

// csv is a line a row (RFC 4180).
func (q *seriesRequest) csv(rows []seriesRow) []byte {
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	_ = out.Write(append(append([]string{"time"}, q.byWhat...), "count")) // a Buffer takes everything
	for i := range rows {
		line := []string{rows[i].Time}
		for _, cell := range []*string{rows[i].App, rows[i].Name, rows[i].Kind} {
			if cell != nil {
				line = append(line, harmlessCell(*cell))
			}
		}
		_ = out.Write(append(line, strconv.FormatInt(rows[i].Count, 10)))
	}
	out.Flush()
	return text.Bytes()
}

// harmlessCell keeps a spreadsheet from taking a name for a formula: any sender
// of events chooses names.
func harmlessCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// seriesParameters are the names that a query may have.
var seriesParameters = []string{"app_id", "name", "kind", "from", "to", "step", "by", "tz", "format"}

// readSeriesRequest reads the query of a URL.
func readSeriesRequest(r *http.Request, now time.Time) (*seriesRequest, error) {
	values, err := readQuery(r, seriesParameters, "app_id", "name")
	if err != nil {
		return nil, err
	}
	q := &seriesRequest{query: store.SeriesQuery{Limit: maxSeriesRead + 1}}
	for _, read := range []func(url.Values) error{q.readForm, q.readZone, q.readFilters, q.readBy} {
		if err := read(values.Values); err != nil {
			return nil, err
		}
	}
	if values.Get("format") == "" {
		q.asCSV = strings.HasPrefix(r.Header.Get("Accept"), "text/csv")
	}
	return q, q.readRange(values.Values, now)
}

// readForm reads step and format.
func (q *seriesRequest) readForm(values url.Values) error {
	switch values.Get("step") {
	case "", "hour":
	case "day":
		q.days = true
	default:
		return refusal(sluice.CodeInvalid, "step is %.32q, want hour or day", values.Get("step"))
	}
	switch values.Get("format") {
	case "", "json":
	case "csv":
		q.asCSV = true
	default:
		return refusal(sluice.CodeInvalid, "format is %.32q, want json or csv", values.Get("format"))
	}
	return nil
}

// readZone reads tz, the zone whose days are meant.
func (q *seriesRequest) readZone(values url.Values) (err error) {
	q.zone = time.UTC
	if tz := values.Get("tz"); tz != "" {
		if tz == "Local" {
			err = fmt.Errorf("not a zone")
		} else {
			q.zone, err = time.LoadLocation(tz)
		}
		if err != nil {
			return refusal(sluice.CodeInvalid, "tz is %.64q, want a name of the IANA time zone database such as Europe/Berlin", tz)
		}
	}
	q.zoned = q.days && q.zone != time.UTC
	q.query.Days = q.days && !q.zoned
	return nil
}

// readFilters reads app_id, name and kind.
func (q *seriesRequest) readFilters(values url.Values) error {
	for _, f := range []struct {
		name  string
		limit int
		to    **string
	}{{"app_id", sluice.MaxAppIDBytes, &q.query.App}, {"name", sluice.MaxNameBytes, &q.query.Name}} {
		value := values.Get(f.name)
		if len(value) > f.limit || !utf8.ValidString(value) {
			return refusal(sluice.CodeInvalid, "%s has more than %d bytes, or is not UTF-8; nothing is called that", f.name, f.limit)
		}
		if values.Has(f.name) {
			*f.to = &value
		}
	}
	if !values.Has("kind") {
		return nil
	}
	var words []string
	for kind := sluice.KindMail; kind <= sluice.KindCounter; kind++ {
		words = append(words, kind.String())
		if kind.String() == values.Get("kind") {
			q.query.Kind = &kind
			return nil
		}
	}
	return refusal(sluice.CodeInvalid, "kind is %.32q, want %s", values.Get("kind"), strings.Join(words, ", "))
}

// readBy reads what is told apart.
func (q *seriesRequest) readBy(values url.Values) error {
	text := values.Get("by")
	if text == "" || text == "none" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(word) {
		case "app", "app_id":
			q.query.ByApp = true
		case "name":
			q.query.ByName = true
		case "kind":
			q.query.ByKind = true
		default:
			return refusal(sluice.CodeInvalid, "by has %.32q, want none, or any of app, name, kind, separated by commas", word)
		}
	}
	for _, c := range []struct {
		name  string
		apart bool
	}{{"app_id", q.query.ByApp}, {"name", q.query.ByName}, {"kind", q.query.ByKind}} {
		if c.apart {
			q.byWhat = append(q.byWhat, c.name)
		}
	}
	return nil
}

// readRange reads from and to, and widens them to whole buckets.
func (q *seriesRequest) readRange(values url.Values, now time.Time) error {
	read := func(name string, other time.Time) (time.Time, error) {
		if values.Get(name) == "" {
			return other, nil
		}
		ms, err := timetext.ParseIn(values.Get(name), q.zone)
		if err != nil {
			return other, refusal(sluice.CodeInvalid, "%s: %s", name, err)
		}
		return time.UnixMilli(ms), nil
	}
	to, err := read("to", now)
	if err != nil {
		return err
	}
	to = to.In(q.zone)
	before := to.Add(-defaultHours * time.Hour)
	if q.days {
		before = to.AddDate(0, 0, -defaultDays)
	}
	from, err := read("from", before)
	if err != nil {
		return err
	}
	q.from, q.to = q.bucket(from.In(q.zone)), q.bucket(to)
	if q.to.Before(to) {
		q.to = q.next(q.to)
	}
	if !q.from.Before(q.to) {
		return refusal(sluice.CodeInvalid, "from is not before to")
	}
	q.query.FromMillis, q.query.ToMillis = q.from.UnixMilli(), q.to.UnixMilli()
	if q.zoned && q.withinHours() {
		const hour = int64(time.Hour / time.Millisecond)
		q.query.Quarters = true
		q.query.FromMillis = q.query.FromMillis / hour * hour
		q.query.ToMillis = (q.query.ToMillis + hour - 1) / hour * hour
	}
	return nil
}

// withinHours reports whether days of the zone begin within an hour of UTC: at an
// end of the range, or in the winter or summer of a year of it.
func (q *seriesRequest) withinHours() bool {
	moments := []time.Time{q.from, q.to}
	for _, year := range []int{q.from.Year(), q.to.Year()} {
		for _, month := range []time.Month{time.January, time.July} {
			moments = append(moments, time.Date(year, month, 1, 0, 0, 0, 0, q.zone))
		}
	}
	return slices.ContainsFunc(moments, func(t time.Time) bool { return t.Unix()%3600 != 0 })
}

// bucket returns when the bucket of a time begins.
func (q *seriesRequest) bucket(t time.Time) time.Time {
	if q.days {
		return timetext.StartOfDay(t)
	}
	return t.Add(-time.Duration(t.UnixMilli()%time.Hour.Milliseconds()) * time.Millisecond).Truncate(time.Second)
}

func (q *seriesRequest) next(t time.Time) time.Time {
	if q.days {
		return timetext.DayAfter(t)
	}
	return t.Add(time.Hour)
}
