package ingest

import (
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
)

func TestHashKeys(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		template, key string
		zone          *time.Location
		field         string
		app, name, at string // at "": a dead letter
	}{
		{"{app_id}|{date}|{name}", "shop|2026-01-31|open", nil, "13", "shop", "open", "2026-01-31T13:00:00Z"},
		{"{app_id}|{date}|{name}", "shop|20260131|a|b|c", nil, "00", "shop", "a|b|c", "2026-01-31T00:00:00Z"},
		{"{app_id}|{date}|{name}", "|20260131|open", nil, "5", "", "open", "2026-01-31T05:00:00Z"},
		{"{date}|{name}", "20260131|open", nil, "23", "app", "open", "2026-01-31T23:00:00Z"},
		{"{date}-{name}", "2026-01-31-open-x", nil, "0", "app", "open-x", "2026-01-31T00:00:00Z"},
		{"{name}-{date}", "open-x-2026-01-31", nil, "0", "app", "open-x", "2026-01-31T00:00:00Z"},
		{"{app_id}:{name}:{date}", "shop:a:b:20260131", nil, "0", "shop", "a:b", "2026-01-31T00:00:00Z"},
		{"ts:{name}:{date}:h", "ts:a:b:20260131:h", nil, "0", "app", "a:b", "2026-01-31T00:00:00Z"},
		{"{name}:{app_id}:{date}", "a:b:shop:20260131", nil, "0", "shop", "a:b", "2026-01-31T00:00:00Z"},
		{"{date}|{name}", "2026-01-31|open", berlin, "0", "app", "open", "2026-01-30T23:00:00Z"},
		{"{date}|{name}", "2026-10-25|open", berlin, "12", "app", "open", "2026-10-25T11:00:00Z"},

		{template: "{app_id}|{date}|{name}", key: "shop|open", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|2026-01-31|", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|2026-02-30|open", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|2026-1-31|open", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|2026/01/31|open", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|20260131x|open", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|20260131|\xff", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|20260131|a\x00b", field: "0"},
		{template: "{app_id}|{date}|{name}", key: "shop|20260131|" + strings.Repeat("n", 256), field: "0"},
		{template: "{app_id}|{date}|{name}", key: strings.Repeat("a", 65) + "|20260131|n", field: "0"},
		{template: "{date}|{name}", key: "19691231|open", field: "0"},
		{template: "{date}|{name}", key: "20260131|open", field: "24"},
		{template: "{date}|{name}", key: "20260131|open", field: "007"},
		{template: "{date}|{name}", key: "20260131|open", field: "-1"},
		{template: "{date}|{name}", key: "20260131|open", field: ""},
		{template: "ts:{name}:{date}", key: "x:a:20260131", field: "0"},
	} {
		zone := tt.zone
		if zone == nil {
			zone = time.UTC
		}
		template, err := NewHashTemplate(tt.template, zone, "app")
		if err != nil {
			t.Fatal(err)
		}
		var c sluice.Count
		d, err := template.parse(tt.key)
		if err == nil {
			c, err = template.count(&d, flow.HashField{Name: tt.field, Value: "7"})
		}
		if tt.at == "" {
			if err == nil {
				t.Errorf("%s of %q, field %q: %+v, want none", tt.template, tt.key, tt.field, c)
			}
			continue
		}
		at := time.UnixMilli(c.TimeMillis).UTC().Format(time.RFC3339)
		if err != nil || c.App != tt.app || c.Name != tt.name || at != tt.at || c.By != 7 || c.Kind != sluice.KindCounter {
			t.Errorf("%s of %q, field %q: %+v at %s, %v", tt.template, tt.key, tt.field, c, at, err)
		}
	}
}

func TestHashValues(t *testing.T) {
	template, err := NewHashTemplate("{date}|{name}", time.UTC, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := template.parse("20260131|open")
	if err != nil {
		t.Fatal(err)
	}
	for value, good := range map[string]bool{"0": true, "-7": true, "1000000000000": true, "1000000000001": false, "-1000000000001": false, "1.5": false, "": false, "many": false} {
		if _, err := template.count(&d, flow.HashField{Name: "1", Value: value}); (err == nil) != good {
			t.Errorf("value %q: %v", value, err)
		}
	}
}

func FuzzHashKey(f *testing.F) {
	f.Add("{app_id}|{date}|{name}", "shop|2026-01-31|a|b")
	f.Add("{name}-{date}", "a-b-20260131")
	f.Fuzz(func(t *testing.T, text, key string) {
		template, err := NewHashTemplate(text, time.UTC, "app")
		if err != nil {
			return
		}
		if d, err := template.parse(key); err == nil && (d.name == "" || !strings.Contains(key, d.name)) {
			t.Fatalf("%q of %q: name %q", text, key, d.name)
		}
	})
}
