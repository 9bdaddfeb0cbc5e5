package braze

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

func TestSeries(t *testing.T) {
	w := newCore(t)
	count := func(kind sluice.EventKind, app, name string, by int64, at time.Time) sluice.Count {
		return sluice.Count{Kind: kind, App: app, Name: name, By: by, TimeMillis: at.UnixMilli()}
	}
	yesterday := now.AddDate(0, 0, -1)
	counts := []sluice.Count{
		count(sluice.KindCustom, "a", "open", 3, now), count(sluice.KindCustom, "b", "open", 4, now), count(sluice.KindCustom, "a", "open", 5, yesterday),
		count(sluice.KindMail, "a", "open", 99, now), count(sluice.KindSystem, "a", "new_user", 2, yesterday), count(sluice.KindSystem, "", "dau", 7, now),
		count(sluice.KindSystem, "", "mau_in", 5, now.AddDate(0, 0, -40)), count(sluice.KindSystem, "", "mau_out", 3, yesterday), count(sluice.KindSystem, "", "mau_in", 1, yesterday), count(sluice.KindSystem, "", "mau_out", 2, now.AddDate(0, 0, 1)),
		count(sluice.KindPurchase, "", "sku", 1, now), count(sluice.KindCustom, "", "long ago", 1, now.AddDate(-2, 0, 0)),
	}
	for i := range 255 {
		counts = append(counts, count(sluice.KindCustom, "", fmt.Sprintf("x%03d", i), 1, yesterday))
	}
	w.apply(t, store.Effect{Counts: counts})
	data := func(text string) string { return `{"message":"success","data":[` + text + `]}` }
	for _, x := range []struct{ path, want string }{
		{"/events/data_series?event=open&length=3", data(`{"count":0,"time":"2026-11-19"},{"count":5,"time":"2026-11-20"},{"count":7,"time":"2026-11-21"}`)},
		{"/events/data_series?event=open&length=1&app_id=a", data(`{"count":3,"time":"2026-11-21"}`)},
		{"/events/data_series?event=open&length=1&ending_at=2026-11-20T23:00:00Z", data(`{"count":5,"time":"2026-11-20"}`)},
		{"/events/data_series?event=open&length=1&ending_at=2026-11-20T23:00:00+00:00", data(`{"count":5,"time":"2026-11-20"}`)},
		{"/events/data_series?event=open&length=2&unit=hour", data(`{"count":0,"time":"2026-11-21T09:00:00.000Z"},{"count":7,"time":"2026-11-21T10:00:00.000Z"}`)},
		{"/kpi/new_users/data_series?length=2", data(`{"new_users":2,"time":"2026-11-20"},{"new_users":0,"time":"2026-11-21"}`)},
		{"/kpi/dau/data_series?length=1", data(`{"dau":7,"time":"2026-11-21"}`)}, {"/kpi/mau/data_series?length=1", data(`{"mau":3,"time":"2026-11-21"}`)},
		{"/kpi/mau/data_series?length=3", data(`{"mau":5,"time":"2026-11-19"},{"mau":3,"time":"2026-11-20"},{"mau":3,"time":"2026-11-21"}`)},
		{"/kpi/mau/data_series?length=1&ending_at=2026-11-30T00:00:00Z", data(`{"mau":1,"time":"2026-11-30"}`)}, {"/kpi/mau/data_series?length=1&ending_at=2020-01-01", data(`{"mau":0,"time":"2020-01-01"}`)},
		{"/kpi/dau/data_series?length=2&ending_at=1970-01-01", data(`{"dau":0,"time":"1969-12-31"},{"dau":0,"time":"1970-01-01"}`)}, {"/kpi/dau/data_series?length=1&ending_at=9999-12-31", data(`{"dau":0,"time":"9999-12-31"}`)},
		{"/kpi/dau/data_series?length=1&app_id=a", data(`{"dau":0,"time":"2026-11-21"}`)},
		{"/purchases/product_list", `{"products":["sku"],"message":"success"}`}, {"/purchases/product_list?page=1", `{"products":[],"message":"success"}`},
		{"/events/list?page=1", `{"events":["x249","x250","x251","x252","x253","x254"],"message":"success"}`}, {"/events/list?page=999999", `{"events":[],"message":"success"}`},
	} {
		w.check(t, x.path, "", 200, x.want, "")
	}
	if status, body := w.call(t, "/events/list", ""); status != 200 || !strings.HasPrefix(body, `{"events":["open","x000",`) || strings.Count(body, `"x`) != 249 {
		t.Errorf("the first page: %d %s", status, body)
	}
	for _, query := range []string{"length=1", "event=open", "event=open&length=0", "event=open&length=101", "event=open&length=x", "event=open&length=1&unit=week",
		"event=open&length=1&ending_at=soon", "event=open&length=1&segment_id=s", "event=%ff&length=1", "event=open&length=1&app_id=%ff"} {
		w.check(t, "/events/data_series?"+query, "", 400, "*", "")
	}
	w.check(t, "/kpi/mau/data_series?length=1&app_id=a", "", 400, "*", "")
	w.check(t, "/kpi/mau/data_series", "", 400, `{"message":"'length' is required"}`, "")
	w.check(t, "/events/list?page=-1", "", 400, "*", "")
}

func TestLimits(t *testing.T) {
	l := NewLimiter(Limits{LimitTrack: 2})
	at := time.Unix(1_700_000_001, 5e8) // half a second into a window of three
	for i, want := range []struct {
		ok        bool
		remaining string
	}{{true, "1"}, {true, "0"}, {false, "0"}, {false, "0"}} {
		l.Look(LimitTrack, at)
		got := l.Take(LimitTrack, at)
		if got.OK != want.ok || got.Limit[0] != "2" || got.Remaining[0] != want.remaining || got.Reset[0] != "1700000004" || got.Wait != 2500*time.Millisecond {
			t.Errorf("call %d: %+v", i, got)
		}
	}
	if got := l.Take(LimitTrack, at.Add(3*time.Second)); !got.OK || got.Remaining[0] != "1" || got.Reset[0] != "1700000007" {
		t.Errorf("the next window: %+v", got)
	}
	if got := l.Take(LimitLists, at); !got.OK || got.Limit[0] != "1000000000" || got.Remaining[0] != "1000000000" || got.Reset[0] != "1700002800" {
		t.Errorf("no limit: %+v", got)
	}
}

func TestKeyIn(t *testing.T) {
	for body, want := range map[string]string{
		`{"api_key":"k","attributes":[]}`: "k", `{"attributes":[{"api_key":"x"}],"api_key":"\u006b"}`: "k", `{"api_key":5}`: "", `{"api_key":"k"`: "k", ``: "", `[]`: "",
	} {
		if got := KeyIn(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if got := string(InvalidKey("a\"\xff" + strings.Repeat("x", 1000))); !strings.HasPrefix(got, `{"message":"Invalid API key: a\"\ufffdxx`) || len(got) > 300 {
		t.Errorf("%s", got)
	}
}
