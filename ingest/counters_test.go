package ingest

import (
	"strings"
	"testing"

	"sluice"
)

func TestParseCounter(t *testing.T) {
	for raw, want := range map[string]sluice.Count{
		`{"name":"n"}`: {Kind: sluice.KindCounter, TimeMillis: 7, By: 1, Name: "n"},
		`{"app_id":"shop","name":"a\u0062","by":12,"time":"2026-01-31T10:59:59Z"}`: {Kind: sluice.KindCounter, TimeMillis: 1769857199000, By: 12, App: "shop", Name: "ab"},
		`{"name":"n","app_id":17,"by":1.2e1,"time":1769857199}`:                    {Kind: sluice.KindCounter, TimeMillis: 1769857199000, By: 12, App: "17", Name: "n"},
		`{"name":"n","by":1000000000000.0,"time":null}`:                            {Kind: sluice.KindCounter, TimeMillis: 7, By: 1e12, Name: "n"},
		`{"name":"n","by":1,"by":2}`:                                               {Kind: sluice.KindCounter, TimeMillis: 7, By: 2, Name: "n"},
	} {
		got := sluice.Count{Kind: sluice.KindCounter, TimeMillis: 7, By: 1}
		if err := parseCounter(raw, &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{
		`{}`: "name is missing", `{"name":" "}`: "name is missing", `{"name":7}`: "name is a number, want a string", `{"name":null}`: "name is missing",
		`{"name":"n","by":0}`: "by is 0", `{"name":"n","by":-1}`: "by is -1", `{"name":"n","by":1.5}`: "by is 1.5", `{"name":"n","by":"3"}`: `by is "3"`,
		`{"name":"n","by":1000000000001}`: "by is 1000000000001", `{"name":"n","by":1e99}`: "by is 1e99", `{"name":"n","by":99999999999999999999}`: "want an integer",
		`{"name":"n","time":{}}`: "time not understood", `{"name":"n","time":"soon"}`: "time not understood", `{"name":"n","count":3}`: `field "count" is not known`,
		`{"name":"a\u0000"}`: "NUL", `{"name":"` + strings.Repeat("x", 256) + `"}`: "name too long", `{"name":"n","app_id":"` + strings.Repeat("x", 65) + `"}`: "app_id too long",
		`[]`: "not an object", `{"name":"n"`: "not JSON", "{\"name\":\"\xff\"}": "not",
	} {
		c := sluice.Count{Kind: sluice.KindCounter, By: 1}
		if err := parseCounter(raw, &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", raw, err, want)
		}
	}
}
