package braze

import (
	"context"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/store"
	"sluice/user/profile"
	"sluice/user/users"
)

// Bounds of what is counted.
const (
	maxLength = 100 // days, or hours
	namesPage = 250

	// maxNameRows bounds the rows that are read to list names. They are counts of
	// a name and a day, so the range is shortened until they are fewer.
	maxNameRows = 200_000
)

// nameDays are how far back names are looked for, in days.
var nameDays = []int{365, 90, 30, 7, 1}

// listNames makes the answer of GET /events/list and GET /purchases/product_list: a page
// of the names that were counted of a kind; called is their name in replies.
func listNames(kind sluice.EventKind, called string) func(context.Context, *Request) (Reply, error) {
	return func(ctx context.Context, r *Request) (Reply, error) {
		page, ok := queryInt(r.Query, "page", 0, 0, 1<<31)
		if !ok {
			return refuse("'page' must be a whole number from 0")
		}
		var rows []store.SeriesRow
		for _, days := range nameDays {
			var err error
			day := dayOf(r.Now)
			rows, err = r.Series.Series(ctx, store.SeriesQuery{Days: true, Kind: &kind, ByName: true, Limit: maxNameRows,
				FromMillis: day.AddDate(0, 0, -days).UnixMilli(), ToMillis: day.AddDate(0, 0, 2).UnixMilli()})
			if err != nil {
				return Reply{}, unread(err)
			}
			if len(rows) < maxNameRows {
				break
			}
		}
		names := make([]string, 0, len(rows))
		for _, row := range rows {
			names = append(names, row.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		names = names[min(page*namesPage, len(names)):]
		done := reply(http.StatusOK, names[:min(namesPage, len(names))])
		done.Body = slices.Concat([]byte(`{"`+called+`":`), done.Body, []byte(`,"message":"success"}`))
		return done, nil
	}
}

// point is a count of a bucket in a reply: of events, or by the name of the KPI.
type point map[string]any

// seriesCall is what a data_series call asks for.
type seriesCall struct {
	query store.SeriesQuery
	from  time.Time
	many  int
	hours bool
}

// readSeriesCall reads the parameters that all of them have; the message of a
// refusal, or "".
func readSeriesCall(r *Request, hours bool) (c seriesCall, wrong string) {
	if r.Query.Get("length") == "" {
		return c, "'length' is required"
	}
	n, ok := queryInt(r.Query, "length", 0, 1, maxLength)
	if !ok {
		return c, "'length' must be a whole number from 1 to 100"
	}
	ends, ok := queryTime(r.Query, "ending_at", r.Now.UnixMilli())
	if !ok {
		return c, "'ending_at' must be a time: ISO 8601"
	}
	app := r.Query.Get("app_id")
	if len(app) > sluice.MaxAppIDBytes || !utf8.ValidString(app) {
		return c, "Invalid app_id"
	}
	if r.Query.Get("segment_id") != "" {
		return c, "'segment_id' is not possible: there are no counts by segment"
	}
	c = seriesCall{many: n, hours: hours, query: store.SeriesQuery{Days: !hours, Limit: maxLength + 2}}
	if app != "" {
		c.query.App = &app
	}
	last := dayOf(time.UnixMilli(ends))
	c.from = last.AddDate(0, 0, 1-n)
	c.query.ToMillis = last.AddDate(0, 0, 1).UnixMilli()
	if hours {
		last = time.UnixMilli(ends).UTC().Truncate(time.Hour)
		c.from = last.Add(time.Duration(1-n) * time.Hour)
		c.query.ToMillis = last.Add(time.Hour).UnixMilli()
	}
	c.query.FromMillis = max(sluice.MinEventTimeMillis, c.from.UnixMilli())
	return c, ""
}

// dayOf is the first moment of a time's day in UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// points reads the counts: one a bucket, 0 where nothing was counted.
func (c *seriesCall) points(ctx context.Context, r *Request, called string) ([]point, error) {
	rows, err := r.Series.Series(ctx, c.query)
	if err != nil {
		return nil, unread(err)
	}
	counts := make(map[int64]int64, len(rows))
	for _, row := range rows {
		counts[row.Millis] = row.Count
	}
	points := make([]point, c.many)
	for i := range points {
		at := c.from.AddDate(0, 0, i)
		text := at.Format(time.DateOnly)
		if c.hours {
			at = c.from.Add(time.Duration(i) * time.Hour)
			text = profile.TimeText(at.UnixMilli())
		}
		points[i] = point{"time": text, called: counts[at.UnixMilli()]}
	}
	return points, nil
}

// mau is GET /kpi/mau/data_series. The store counts the users who begin and who
// end thirty days without a pause. So the number on a day is the sum of all
// days up to it.
func mau(ctx context.Context, r *Request) (Reply, error) {
	c, wrong := readSeriesCall(r, false)
	if wrong == "" && c.query.App != nil {
		wrong = "'app_id' is not possible: the users active in a month are not counted by app"
	}
	if wrong != "" {
		return refuse(wrong)
	}
	points := make([]point, c.many)
	sums := make([]int64, c.many)
	for i := range points {
		points[i] = point{"time": c.from.AddDate(0, 0, i).Format(time.DateOnly)}
	}
	for name, sign := range map[string]int64{users.MonthIn: 1, users.MonthOut: -1} {
		kind := sluice.KindSystem
		rows, err := r.Series.Series(ctx, store.SeriesQuery{Days: true, Kind: &kind, Name: &name, ToMillis: c.query.ToMillis, Limit: maxNameRows})
		if err != nil {
			return Reply{}, unread(err)
		}
		for _, row := range rows {
			day := max(0, int(dayOf(time.UnixMilli(row.Millis)).Sub(c.from)/(24*time.Hour)))
			for ; day < len(sums); day++ {
				sums[day] += sign * row.Count
			}
		}
	}
	for i := range points {
		points[i]["mau"] = max(0, sums[i])
	}
	return seriesReply(points)
}

func seriesReply(points []point) (Reply, error) {
	return reply(http.StatusOK, struct {
		Message string  `json:"message"`
		Data    []point `json:"data"`
	}{success, points}), nil
}

// answer reads the counts and replies with them.
func (c *seriesCall) answer(ctx context.Context, r *Request, called string) (Reply, error) {
	points, err := c.points(ctx, r, called)
	if err != nil {
		return Reply{}, err
	}
	return seriesReply(points)
}

// eventSeries is GET /events/data_series.
func eventSeries(ctx context.Context, r *Request) (Reply, error) {
	event := r.Query.Get("event")
	if event == "" || len(event) > sluice.MaxNameBytes || !utf8.ValidString(event) {
		return refuse("'event' is required: the name of a custom event")
	}
	unit := r.Query.Get("unit")
	if unit != "" && unit != "day" && unit != "hour" {
		return refuse("'unit' must be 'day' or 'hour'")
	}
	c, wrong := readSeriesCall(r, unit == "hour")
	if wrong != "" {
		return refuse(wrong)
	}
	kind := sluice.KindCustom
	c.query.Kind, c.query.Name = &kind, &event
	return c.answer(ctx, r, "count")
}

// kpi makes the answer of GET /kpi/.../data_series, of a series that the store
// counts; called is its name in replies.
func kpi(counted, called string) func(context.Context, *Request) (Reply, error) {
	return func(ctx context.Context, r *Request) (Reply, error) {
		c, wrong := readSeriesCall(r, false)
		if wrong != "" {
			return refuse(wrong)
		}
		kind := sluice.KindSystem
		c.query.Kind, c.query.Name = &kind, &counted
		return c.answer(ctx, r, called)
	}
}
