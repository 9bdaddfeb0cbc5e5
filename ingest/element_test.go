package ingest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice"
)

const testNow = 1_650_000_000_000

// sampleElement is an element of the commonest shape, about 170 bytes.
func sampleElement(i int) string {
	return fmt.Sprintf(`{"id": %d, "event": "click", "email": "user%d@example.com", "timestamp": %d, "ip": "10.0.0.1", "ua": "Mozilla/5.0 (X11; Linux) Gecko", "campaign": "c%d"}`,
		1000000001+i, i, 1700000001+i, i%10)
}

func TestParseEvent(t *testing.T) {
	const mail, custom = sluice.KindMail, sluice.KindCustom
	tests := []struct {
		name, raw, dedupe string
		want              sluice.Event
	}{
		{"sample", sampleElement(1), "", sluice.Event{Kind: mail, TimeMillis: 1700000002000, Name: "clicked", App: "shop", Email: "user1@example.com",
			Properties: `{"id": 1000000002,"ip": "10.0.0.1", "ua": "Mozilla/5.0 (X11; Linux) Gecko", "campaign": "c1"}`}},
		{"all taken", `{"event":"open","email":"a@b","time":1,"app_id":"x","user_id":"u","message_id":"m"}`, "",
			sluice.Event{Kind: mail, TimeMillis: 1000, Name: "opened", App: "x", Email: "a@b", User: "u", Message: "m"}},
		{"first rank", `{"ts":3,"timestamp":2,"time":1,"type":"d","name":"c","event_name":"b","event":"a","recipient":"r","email":"e","user":"3","external_id":"2","user_id":"1","message":"3","msg_id":"2","message_id":"1"}`, "",
			sluice.Event{Kind: custom, TimeMillis: 1000, Name: "a", App: "shop", Email: "e", User: "1", Message: "1",
				Properties: `{"ts":3,"timestamp":2,"type":"d","name":"c","event_name":"b","recipient":"r","user":"3","external_id":"2","message":"3","msg_id":"2"}`}},
		{"other ranks", `{"type":"d","ts":"2","recipient":"r","user":"3","message":"4"}`, "",
			sluice.Event{Kind: custom, TimeMillis: 2000, Name: "d", App: "shop", Email: "r", User: "3", Message: "4"}},
		{"numbers are references", `{"event":"x","user_id":12345678901234567890,"message_id":-1.50,"app_id":7}`, "",
			sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "7", User: "12345678901234567890", Message: "-1.50"}},
		{"unusable stay", `{"event":{"a":1},"event_name":5,"name":"n","email":7,"user_id":null,"user":"","message":[1],"app_id":true,"time":null}`, "",
			sluice.Event{Kind: custom, TimeMillis: testNow, Name: "n", App: "shop",
				Properties: `{"event":{"a":1},"event_name":5,"email":7,"user_id":null,"user":"","message":[1],"app_id":true,"time":null}`}},
		{"case matters", `{"Event":"a","event":"Ab c"}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "Ab c", App: "shop", Properties: `{"Event":"a"}`}},
		{"repeated key", `{"event":"a","x":1,"event":"b","x":2}`, "",
			sluice.Event{Kind: custom, TimeMillis: testNow, Name: "b", App: "shop", Properties: `{"event":"a","x":1,"x":2}`}},
		{"detail stays", `{"event":"soft_bounce"}`, "", sluice.Event{Kind: mail, TimeMillis: testNow, Name: "bounced", App: "shop", Properties: `{"event":"soft_bounce"}`}},
		{"escapes", `{"ev\u0065nt":"\u00e9t\u00e9","user_id":"a\tb","time":"2023-11-14T22:13:21\u005a","p":"\u0000"}`, "",
			sluice.Event{Kind: custom, TimeMillis: 1700000001000, Name: "été", App: "shop", User: "a\tb", Properties: `{"p":"\u0000"}`}},
		{"address", `{"event":"x","email":" Max.Muster@EXAMPLE.Com "}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Email: "Max.Muster@example.com"}},
		{"odd address", `{"event":"x","email":"\"A@B\"@Ü.DE"}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Email: `"A@B"@ü.de`}},
		{"no address", `{"event":"x","email":"Max"}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Email: "Max"}},
		{"id is no id", `{"event":"x","id":"i"}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Properties: `{"id":"i"}`}},
		{"dedupe", `{"event":"x","id":" i ","ts":1}`, "id", sluice.Event{Kind: custom, TimeMillis: 1000, ID: " i ", Name: "x", App: "shop"}},
		{"dedupe number", `{"ts":1,"id":1e3,"k":[{}],"event":"x"}`, "id", sluice.Event{Kind: custom, TimeMillis: 1000, ID: "1e3", Name: "x", App: "shop", Properties: `{"k":[{}]}`}},
		{"dedupe is a reference", `{"message_id":"m","event":"x","ts":1}`, "message_id", sluice.Event{Kind: custom, TimeMillis: 1000, ID: "m", Name: "x", App: "shop", Message: "m"}},
		{"dedupe path", `{"meta":{"id":"i"},"event":"x","ts":1}`, "meta.id", sluice.Event{Kind: custom, TimeMillis: 1000, ID: "i", Name: "x", App: "shop", Properties: `{"meta":{"id":"i"}}`}},
		{"dedupe name before path", `{"meta.id":"j","meta":{"id":"i"},"event":"x","ts":1}`, "meta.id", sluice.Event{Kind: custom, TimeMillis: 1000, ID: "j", Name: "x", App: "shop", Properties: `{"meta":{"id":"i"}}`}},
		{"white space", " {\n \"a\" : 1 ,\n \"event\" : \"x\" ,\t\"b\":2\r\n, \"ts\":1 } ", "", sluice.Event{Kind: custom, TimeMillis: 1000, Name: "x", App: "shop", Properties: `{"a" : 1,"b":2}`}},
		{"empty key", `{"":0,"event":"x"}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Properties: `{"":0}`}},
		{"great numbers", `{"event":"x","a":9007199254740993,"b":1e400,"c":-0}`, "", sluice.Event{Kind: custom, TimeMillis: testNow, Name: "x", App: "shop", Properties: `{"a":9007199254740993,"b":1e400,"c":-0}`}},
	}
	var arena Arena
	for _, tt := range tests {
		for _, opts := range []*EventOptions{
			{Now: testNow, App: "shop", Dedupe: tt.dedupe},
			{Now: testNow, App: "shop", Dedupe: tt.dedupe, Arena: &arena},
		} {
			got := sluice.Event{Email: "left from before"}
			if err := ParseEvent(tt.raw, opts, &got); err != nil || got != tt.want {
				t.Errorf("%s: got %v\n%+v, want\n%+v", tt.name, err, got, tt.want)
			}
		}
	}
}

func TestParseEventRefused(t *testing.T) {
	long := strings.Repeat("n", 10_000)
	for _, tt := range []struct{ raw, dedupe, reason string }{
		{`{"event":"` + strings.Repeat("x", 10<<20) + `"}`, "", "too large: 10485772 bytes, the limit of an element is 1048576 bytes"},
		{``, "", "not JSON: want a value, got the end, at byte 0"},
		{`nope`, "", "not JSON: "},
		{"\ufeff{}", "", "not JSON: "},
		{"{\"event\":\"\xff\"}", "", "not JSON: want UTF-8, got the byte 0xff, at byte 10"},
		{`{"event":"x"} x`, "", "not JSON: want nothing behind the value"},
		{`{"event":"x","a":"\ud800"}`, "", "not JSON: want surrogates in pairs"},
		{`{"event":"x","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "", "nested too deep: more than 64 levels"},
		{`[{"event":"x"}]`, "", "not an object: it is an array"},
		{`"x"`, "", "not an object: it is a string"},
		{`17`, "", "not an object: it is a number"},
		{`null`, "", "not an object: it is null"},
		{`{}`, "", "name is missing"},
		{`{"event":null,"name":"","type":" "}`, "", "name is missing"},
		{`{"event":5}`, "", "name is missing"},
		{`{"event":"` + long + `"}`, "", "name too long: 10000 bytes, the limit is 255 bytes"},
		{`{"event":"x","email":"` + long + `"}`, "", "email too long: 10000 bytes, the limit is 254 bytes"},
		{`{"event":"x","user_id":"` + long + `"}`, "", "user too long: 10000 bytes, the limit is 128 bytes"},
		{`{"event":"x","app_id":"` + long + `"}`, "", "app too long: 10000 bytes, the limit is 64 bytes"},
		{`{"event":"x","message":"` + long + `"}`, "", "message too long: 10000 bytes, the limit is 128 bytes"},
		{`{"event":"x","id":"` + long + `","ts":1}`, "id", "id too long: 10000 bytes, the limit is 128 bytes"},
		{`{"event":"a\u0000"}`, "", "name contains a NUL character"},
		{`{"event":"x","email":"a\u0000@b"}`, "", "email contains a NUL character"},
		{`{"event":"x","user":"\u0000"}`, "", "user contains a NUL character"},
		{`{"event":"x","app_id":"\u0000"}`, "", "app contains a NUL character"},
		{`{"event":"x","msg_id":"\u0000"}`, "", "message contains a NUL character"},
		{`{"event":"x","id":"\u0000","ts":1}`, "id", "id contains a NUL character"},
		{`{"event":"x","time":"99999-01-01T00:00:00Z"}`, "", `time out of range: year "99999"`},
		{`{"event":"x","time":1e400}`, "", `time out of range: "1e400"`},
		{`{"event":"x","time":-1}`, "", `time out of range: "-1"`},
		{`{"event":"x","time":"soon"}`, "", `time not understood: "soon"`},
		{`{"event":"x","time":{"$date":1},"ts":1}`, "", "time not understood: it is an object"},
		{`{"event":"x","time":true}`, "", "time not understood: it is a boolean"},
		{`{"event":"x","ts":1}`, "id", "dedupe field id is missing"},
		{`{"event":"x","ts":1,"id":null}`, "id", "dedupe field id is missing"},
		{`{"event":"x","ts":1,"id":" "}`, "id", "dedupe field id is missing"},
		{`{"event":"x","ts":1,"id":"i","id":""}`, "id", "dedupe field id is missing"},
		{`{"event":"x","ts":1,"id":{}}`, "id", "dedupe field id is an object, want a string or a number"},
		{`{"event":"x","ts":1,"m":{"i":true}}`, "m.i", "dedupe field m.i is a boolean, want a string or a number"},
		{`{"event":"x","ts":1,"m":{}}`, "m.i", "dedupe field m.i is missing"},
		{`{"event":"x","id":"i"}`, "id", "time is missing: an event with an id"},
	} {
		var e sluice.Event
		err := ParseEvent(tt.raw, &EventOptions{Now: testNow, Dedupe: tt.dedupe}, &e)
		if err == nil || !strings.HasPrefix(err.Error(), tt.reason) {
			t.Errorf("%.60q: got %v, want %s", tt.raw, err, tt.reason)
		}
	}
}

// TestArena checks that texts stay what they were while others are made.
func TestArena(t *testing.T) {
	var arena Arena
	opts := &EventOptions{Now: testNow, Arena: &arena}
	events := make([]sluice.Event, 2000)
	for i := range events {
		raw := fmt.Sprintf(`{"event":"e\u0301%d","user":"\t%d","email":"x@EXAMPLE%d","pad":"%s"}`, i, i, i, strings.Repeat("p", i*10))
		if err := ParseEvent(raw, opts, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range events {
		want := sluice.Event{Kind: sluice.KindCustom, TimeMillis: testNow, Name: fmt.Sprintf("e\u0301%d", i), User: fmt.Sprint(i),
			Email: fmt.Sprintf("x@example%d", i), Properties: `{"pad":"` + strings.Repeat("p", i*10) + `"}`}
		if e != want {
			t.Fatalf("event %d: got %+v, want %+v", i, e, want)
		}
	}
}

func TestParseEventAllocations(t *testing.T) {
	raw := sampleElement(1)
	for _, tt := range []struct {
		arena *Arena
		most  float64
	}{{nil, 1}, {&Arena{}, 0}} {
		opts := &EventOptions{Now: testNow, Dedupe: "id", Arena: tt.arena}
		var e sluice.Event
		got := testing.AllocsPerRun(100, func() {
			if err := ParseEvent(raw, opts, &e); err != nil {
				t.Fatal(err)
			}
			if tt.arena != nil {
				tt.arena.Reset()
			}
		})
		if got > tt.most {
			t.Errorf("%v allocations, want at most %v", got, tt.most)
		}
	}
}

// oddElements are what producers send by mistake.
func oddElements() []string {
	seeds := []string{
		``, `nope`, `[]`, `[{"event":"x"}]`, `"x"`, `17`, `null`, `true`, `{}`, "\xff", "\x00", "\ufeff{}", `{"event":"x"}`, sampleElement(1),
		"{\"event\":\"\xff\"}", "{\"event\":\"\x00\"}", `{"event":"a\u0000","email":"\u0000","p":"\u0000"}`, `{"event":"\ud800"}`, `{"event":"\udc00\ud800"}`,
		`{"event":"` + strings.Repeat("n", 10_000) + `"}`, `{"event":"x","time":"99999-01-01T00:00:00Z"}`, `{"event":"x","time":1e400}`,
		`{"event":"x","time":9007199254740993,"user_id":9007199254740993,"id":1e400}`, `{"event":"x","time":-0,"a":1e-999999999,"b":1E+999999999}`,
		`{"event":"x","event":"y","id":1,"id":2}`, `{"":"","event":"x"}`, ` { "a" : 1 , "event" : "x" , "b" : { "c" : [ ] } } `,
		`{"event":"x","a.b":1,"a":{"b":2,"b.c":3}}`, `{"event":"x","a":{"b":{"c":"d"}},"$":"s","id":"\u0069"}`,
	}
	if fuzzing := flag.Lookup("test.fuzz"); fuzzing != nil && fuzzing.Value.String() != "" {
		return seeds // mutants of the rest cost too much of the time there is
	}
	return append(seeds, `{"event":"`+strings.Repeat("x", 10<<20)+`"}`, strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000))
}

// member is a member of an object as encoding/json reads it.
type member struct{ key, raw string }

func membersOf(t *testing.T, object string) (members []member) {
	dec := json.NewDecoder(bytes.NewReader([]byte(object)))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		t.Fatalf("no object: %q: %v", object, err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		members = append(members, member{key.(string), string(raw)})
	}
	return members
}

// FuzzParseEvent checks that what is accepted keeps every limit, and that
// every member either became a text of the event or stands in Properties.
func FuzzParseEvent(f *testing.F) {
	for _, s := range oddElements() {
		f.Add(s, "")
		f.Add(s, "id")
		f.Add(s, "a.b")
	}
	f.Fuzz(func(t *testing.T, raw, dedupe string) {
		var e, same sluice.Event
		err := ParseEvent(raw, &EventOptions{Now: testNow, App: "app", Dedupe: dedupe}, &e)
		again := ParseEvent(raw, &EventOptions{Now: testNow, App: "app", Dedupe: dedupe, Arena: &Arena{}}, &same)
		if (err == nil) != (again == nil) || err == nil && same != e {
			t.Fatalf("%q: %+v, %v; with an arena %+v, %v", raw, e, err, same, again)
		}
		if err != nil {
			return
		}
		for _, text := range []struct {
			s    string
			most int
		}{
			{e.ID, sluice.MaxEventIDBytes}, {e.Name, sluice.MaxNameBytes}, {e.App, sluice.MaxAppIDBytes}, {e.Email, sluice.MaxEmailBytes},
			{e.User, sluice.MaxReferenceBytes}, {e.Message, sluice.MaxReferenceBytes}, {e.Properties, len(raw)},
		} {
			if len(text.s) > text.most || strings.Contains(text.s, "\x00") || !utf8.ValidString(text.s) {
				t.Fatalf("%q: the text %q passed", raw, text.s)
			}
		}
		if e.Name == "" || (e.ID == "") != (dedupe == "") || e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis {
			t.Fatalf("%q: poor event %+v", raw, e)
		}
		checkProperties(t, raw, dedupe, &e)
	})
}

// checkProperties checks that the properties are the element's members in
// their order, less at most one for each place.
func checkProperties(t *testing.T, raw, dedupe string, e *sluice.Event) {
	var rest []member
	if e.Properties != "" {
		rest = membersOf(t, e.Properties)
	}
	var gone [places]int
	for _, m := range membersOf(t, raw) {
		if len(rest) > 0 && rest[0] == m {
			rest = rest[1:]
			continue
		}
		p, rank := fieldOf(m.key)
		if m.key == dedupe {
			p, rank = placeID, 1
		}
		if gone[p]++; rank == 0 || gone[p] > 1 {
			t.Fatalf("%q: member %q is lost; properties %q", raw, m, e.Properties)
		}
		var text string
		if err := json.Unmarshal([]byte(m.raw), &text); err != nil {
			text = m.raw
		}
		if texts := []string{e.ID, e.App, e.User, e.Message}; p >= placeApp && !slices.Contains(texts, strings.TrimSpace(text)) {
			t.Fatalf("%q: member %q became none of %q", raw, m, texts)
		}
	}
	if len(rest) > 0 {
		t.Fatalf("%q: properties %q hold more than was sent", raw, e.Properties)
	}
}

func BenchmarkParseEvent(b *testing.B) {
	var raws []string
	for i := range 1024 {
		raws = append(raws, sampleElement(i))
	}
	for _, bench := range []struct {
		name  string
		arena *Arena
	}{{"allocated", nil}, {"arena", &Arena{}}} {
		b.Run(bench.name, func(b *testing.B) {
			opts := &EventOptions{Now: testNow, Arena: bench.arena}
			var e sluice.Event
			b.SetBytes(int64(len(raws[0])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if bench.arena != nil {
					bench.arena.Reset()
				}
				if err := ParseEvent(raws[i&1023], opts, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
