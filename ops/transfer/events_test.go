package transfer

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"sluice"
)

var exported = []sluice.Event{
	{Kind: sluice.KindMail, TimeMillis: 1760000000123, ID: "3-1760000000000-0-5", Name: "opened", Email: "ann@example.com", Message: "m1"},
	{Kind: sluice.KindCustom, TimeMillis: 0, ID: "a ", Name: "say \"hi\"\\", App: "shöp,\"x\"", User: "u\t7\n8", Properties: `{"price": 12.50, "text": "<&>\u0000é"}`},
	{Kind: sluice.KindSystem, TimeMillis: sluice.MaxEventTimeMillis, ID: "=1+1", Name: "opened", Properties: "{}"},
}

func TestExportedEventsComeBack(t *testing.T) {
	var b bytes.Buffer
	w := NewEventWriter(&b, NDJSON)
	for i := range exported {
		if err := w.Write(&exported[i]); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != len(exported) {
		t.Fatalf("%d lines of %d events:\n%s", len(lines), len(exported), b.String())
	}
	for i, line := range lines {
		var e sluice.Event
		if err := ParseExported(line, &e); err != nil || e != exported[i] {
			t.Errorf("%s\ngot  %+v (%v)\nwant %+v", line, e, err, exported[i])
		}
	}
}

func TestExportedCSVComesBack(t *testing.T) {
	var b bytes.Buffer
	w := NewEventWriter(&b, CSV)
	for i := range exported {
		if err := w.Write(&exported[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) != len(exported)+1 {
		t.Fatalf("%d records (%v)", len(records), err)
	}
	for i, record := range records[1:] {
		e := sluice.Event{}
		for f, text := range record {
			if text == "" {
				continue
			}
			if err := setExported(&e, records[0][f], text); err != nil {
				t.Fatal(err)
			}
		}
		if e != exported[i] {
			t.Errorf("got  %+v\nwant %+v", e, exported[i])
		}
	}
}

func TestParseExportedRefuses(t *testing.T) {
	const good = `"event_id":"x","kind":"mail","name":"opened","time":"2026-01-02T03:04:05.006Z"`
	var e sluice.Event
	if err := ParseExported("{"+good+"}", &e); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, want string }{
		{`[]`, "not an object"},
		{`{` + good + `,"extra":"1"}`, `field "extra" is none`},
		{`{` + good + `,"email":5}`, "field email is a number"},
		{`{` + good + `,"properties":"[]"}`, "properties are no JSON object"},
		{`{` + good + `,"user_id":"` + strings.Repeat("u", 129) + `"}`, "user_id too long"},
		{`{` + good + `,"user_id":"a\u0000"}`, "NUL"},
		{`{` + good + `,"time":"yesterday"}`, "time not understood"},
		{`{` + good + `,"kind":"male"}`, "kind"},
		{`{"kind":"mail","name":"opened","time":"2026-01-02T03:04:05.006Z"}`, "event_id is missing"},
	} {
		if err := ParseExported(tt.line, &e); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.line, err, tt.want)
		}
	}
}
