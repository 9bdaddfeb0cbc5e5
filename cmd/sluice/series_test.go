package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// ask sends a request with the root key, by a client that compares every answer
// with the document, and returns its status and body.
func (s *served) ask(t *testing.T, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testRoot)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// series returns the rows of an answer as texts.
func (s *served) series(t *testing.T, query string) string {
	t.Helper()
	status, text := s.ask(t, "GET", "/v1/series?"+query, "")
	var answer struct {
		Series []struct {
			Time, Name, Kind string
			App              string `json:"app_id"`
			Count            int64
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, status, text)
	}
	var rows []string
	for _, r := range answer.Series {
		rows = append(rows, strings.Join(strings.Fields(fmt.Sprint(r.Time, " ", r.App, " ", r.Name, " ", r.Kind, " ", r.Count)), " "))
	}
	return strings.Join(rows, "\n")
}

// Events and counters are counted by hour and read by hour, day and zone; a
// repeat with an Idempotency-Key counts once.
func TestSeries(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	at := func(d time.Duration) string {
		return time.Now().UTC().Truncate(24 * time.Hour).Add(-48*time.Hour + d).Format(time.RFC3339)
	}
	late := 23*time.Hour + 30*time.Minute // in Berlin it is the next day, summer or winter
	counters := fmt.Sprintf(`[{"app_id":"shop","name":"visits","by":5,"time":%q},{"app_id":"shop","name":"visits","time":%q},
		{"app_id":"shop","name":"visits","by":7,"time":%q},{"name":"=1+1","by":2,"time":%q},{"name":"x","by":0},{"name":""},{"app":"x","name":"y"},{"by":1}]`,
		at(time.Hour), at(time.Hour+time.Minute), at(late), at(late))
	for range 3 {
		status, text := s.ask(t, "POST", "/v1/counters", counters, "Idempotency-Key", "one")
		if status != http.StatusAccepted || !strings.HasPrefix(text, `{"accepted":4,"refused_count":4,"refused":[{"code":"invalid","message":"by is 0, want`) {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, text := s.ask(t, "POST", "/v1/counters", `{"name":"visits"}`, "Idempotency-Key", "one"); status != http.StatusBadRequest || !strings.Contains(text, "another body") {
		t.Errorf("another body: %d %s", status, text)
	}
	event := fmt.Sprintf(`{"event":"open","event_id":"e1","app_id":"shop","time":%q}`, at(time.Hour))
	for range 2 {
		if status, text := s.ask(t, "POST", "/v1/events", event); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, text)
		}
	}
	whole := "from=" + url.QueryEscape(at(0)) + "&to=" + url.QueryEscape(at(47*time.Hour))
	await(t, "all is counted", func() bool { return strings.Contains(s.series(t, whole+"&by=name&step=day"), "=1+1") })
	await(t, "the event is counted", func() bool { return strings.Contains(s.series(t, whole+"&by=kind&step=day"), "mail") })
	for query, want := range map[string][]string{
		"by=app,name,kind":             {at(time.Hour) + " shop opened mail 1", at(time.Hour) + " shop visits counter 6", at(23*time.Hour) + " =1+1 counter 2", at(23*time.Hour) + " shop visits counter 7"},
		"app_id=shop":                  {at(time.Hour) + " 7", at(23*time.Hour) + " 7"},
		"app_id=":                      {at(23*time.Hour) + " 2"},
		"name=visits&step=day&by=name": {at(0) + " visits 13"},
		"kind=mail&step=day":           {at(0) + " 1"},
		"name=nothing":                 nil,
	} {
		if got := s.series(t, whole+"&"+query); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", query, got, strings.Join(want, "\n"))
		}
	}
	days := strings.Split(s.series(t, whole+"&name=visits&step=day&tz=Europe/Berlin"), "\n")
	if len(days) != 2 || !strings.HasSuffix(days[0], " 6") || !strings.HasSuffix(days[1], " 7") {
		t.Errorf("days of Berlin: %q", days)
	}
	s.seriesRefused(t)
	s.seriesCSV(t, whole)
	s.seriesZones(t)
	s.seriesWithinHours(t)
}

// seriesWithinHours: days of India and of Nepal, of counters and of events.
func (s *served) seriesWithinHours(t *testing.T) {
	t.Helper()
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(-48 * time.Hour)
	at := func(hours, minutes int) string {
		return day.Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute).Format(time.RFC3339)
	}
	for path, body := range map[string]string{
		"/v1/counters": `[{"app_id":"india","name":"n","by":1,"time":"` + at(18, 14) + `"},{"app_id":"india","name":"n","by":2,"time":"` + at(18, 15) + `"},{"app_id":"india","name":"n","by":4,"time":"` + at(18, 30) + `"},{"app_id":"india","name":"n","by":8,"time":"` + at(20, 0) + `"}]`,
		"/v1/events":   `[{"event":"e","app_id":"india","event_id":"1","time":"` + at(18, 29) + `"},{"event":"e","app_id":"india","event_id":"2","time":"` + at(18, 31) + `"}]`,
	} {
		if status, text := s.ask(t, http.MethodPost, path, body); status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	for zone, want := range map[string]string{"Asia/Kolkata": "3 12 1 1", "Asia/Kathmandu": "1 14 0 2", "UTC": "15 0 2 0"} {
		await(t, "the days of "+zone, func() bool {
			var sums [4]int64
			status, text := s.ask(t, http.MethodGet, "/v1/series?app_id=india&by=name&step=day&tz="+zone+"&from="+day.Format(time.DateOnly)+"&to="+day.Add(48*time.Hour).Format(time.DateOnly), "")
			var answer struct {
				Series []struct {
					Time  time.Time
					Name  string
					Count int64
				}
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d %s %v", zone, status, text, err)
			}
			for _, row := range answer.Series {
				i := map[string]int{"n": 0, "e": 2}[row.Name]
				if row.Time.Day() != day.Day() {
					i++
				}
				sums[i] = row.Count
			}
			return strings.Trim(fmt.Sprint(sums), "[]") == want
		})
	}
}

// seriesZones: a date without a zone is of the zone asked for, and a day that
// begins at one o'clock has the 23 hours it has.
func (s *served) seriesZones(t *testing.T) {
	t.Helper()
	for query, want := range map[string]string{
		"from=2026-11-01&to=2026-11-02&tz=Europe/Berlin":             `{"from":"2026-11-01T00:00:00+01:00","to":"2026-11-02T00:00:00+01:00"`,
		"from=2026-11-01&to=2026-11-02&tz=America/New_York":          `{"from":"2026-11-01T00:00:00-04:00","to":"2026-11-02T00:00:00-05:00"`,
		"from=2026-09-06&to=2026-09-07&tz=America/Santiago":          `{"from":"2026-09-06T01:00:00-03:00","to":"2026-09-07T00:00:00-03:00"`,
		"from=2026-09-05&to=2026-09-06T02:00&tz=America/Santiago":    `{"from":"2026-09-05T00:00:00-04:00","to":"2026-09-07T00:00:00-03:00"`,
		"from=2026-11-01T00:00Z&to=2026-11-02T00:00Z&tz=Europe/Rome": `{"from":"2026-11-01T00:00:00+01:00","to":"2026-11-03T00:00:00+01:00"`,
	} {
		if status, text := s.ask(t, "GET", "/v1/series?step=day&"+query, ""); status != http.StatusOK || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %d %s, want %s", query, status, text, want)
		}
	}
}

func (s *served) seriesRefused(t *testing.T) {
	t.Helper()
	for query, want := range map[string]string{
		"step=week": "want hour or day", "tz=Mars/Base": "IANA", "tz=Local": "IANA", "by=user": "any of app, name, kind", "kind=x": "want mail, custom",
		"from=2026-01-02&to=2026-01-01": "not before", "from=soon": "time not understood",
		"format=xml": "json or csv", "limit=5": "not known", "name=a&name=b": "2 times", "name=%zz": "cannot be read",
	} {
		if status, text := s.ask(t, "GET", "/v1/series?"+query, ""); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

func (s *served) seriesCSV(t *testing.T, whole string) {
	t.Helper()
	_, text := s.ask(t, "GET", "/v1/series?"+whole+"&by=name,app&step=day", "", "Accept", "text/csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || fmt.Sprint(rows[0]) != "[time app_id name count]" || rows[1][1] != "" || rows[1][2] != "'=1+1" || rows[1][3] != "2" {
		t.Errorf("CSV: %q", rows)
	}
}

// A key reads or writes what its permissions say, and nothing else.
func TestSeriesPermissions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	for permission, path := range map[string]string{"counters:write": "/v1/counters", "series:read": "/v1/series", "events:write": "/v1/events"} {
		key := strings.TrimSpace(mustRun(t, dir, "key", "create", "--name", "k", "--permission", permission).stdout)
		for _, to := range []struct{ method, path, body string }{{"POST", "/v1/counters", `{"name":"n"}`}, {"GET", "/v1/series", ""}, {"POST", "/v1/events", `{"event":"e"}`}} {
			status, text := s.ask(t, to.method, to.path, to.body, "Authorization", "Bearer "+key)
			if (status < 300) != (to.path == path) || (to.path != path && status != http.StatusForbidden) {
				t.Errorf("%s with %s: %d %s", to.path, permission, status, text)
			}
		}
	}
}

// Times far from now are refused in requests and kept of lists; a change of
// the bounds lets them in.
func TestEventTimeBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_EVENT_TIME_PAST_DAYS=7", "SLUICE_EVENT_TIME_FUTURE_MINUTES=10")
	item := func(d time.Duration) string {
		return fmt.Sprintf(`{"name":"n","event_id":"e","time":%q}`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	old, fine, early := item(-8*24*time.Hour), item(-6*24*time.Hour), item(11*time.Minute)
	for _, path := range []string{"/v1/events", "/v1/counters"} {
		body := "[" + strings.Join([]string{old, fine, early}, ",") + "]"
		if path == "/v1/counters" {
			body = strings.ReplaceAll(body, `"event_id":"e",`, "")
		}
		status, text := s.ask(t, "POST", path, body)
		if status != http.StatusAccepted || !strings.HasPrefix(text, `{"accepted":1,"refused_count":2,`) ||
			!strings.Contains(text, "more than 7 days back") || !strings.Contains(text, "more than 10 minutes ahead") || !strings.Contains(text, `"index":2`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	pushAll(t, dir, old)
	await(t, "the element is kept", func() bool {
		return strings.Contains(mustRun(t, dir, "dead", "list").stdout, "time out of bounds")
	})
	if code := s.stop(t); code != exitOK {
		t.Fatalf("it ended with %d", code)
	}
	startServe(t, dir, "SLUICE_EVENT_TIME_PAST_DAYS=9")
	mustRun(t, dir, "dead", "replay", "--all")
	await(t, "it is stored", func() bool { return strings.Count(mustRun(t, dir, "export", "events").stdout, `"e"`) == 2 })
}
