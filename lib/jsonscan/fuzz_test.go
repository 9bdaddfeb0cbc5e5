package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice"
)

var seeds = []string{
	``, ` `, `x`, `nope`, `{}`, `[]`, `null`, `1`, `"x"`, `true`, `{"a":1}`, `[{"a":1}]`,
	`{"":""}`, `{"a":1,"a":2}`, `{"a":{"b":[1,2,{"c":null}]}}`, ` { "a" : [ ] , "b" : { } } `,
	`{"n":9007199254740993,"e":1e400,"h":1e-999999999,"z":-0,"f":-0.0E+00}`, `{"n":01}`, `{"n":1.}`,
	"\ufeff{}", "{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", "\xff\xfe", "{\"a\x00\":1}", `{"a":"\u0000"}`,
	`{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d\u0041"}`, `{"\u0061":1}`,
	`{"a":"\"\\\/\b\f\n\r\t\u00e9\uFFFD"}`, `{"a":"\x"}`, `{"a":"é😀日本"}`, "{\"a\":\"\n\"}", "{\"a\":\"\t\"}",
	`{"a":1,}`, `{"a":1}{}`, `{"a":1]`, `{"a":[1,]}`, `{'a':1}`, `{"a":NaN}`, `{"a":tru}`, `// {}`,
	`{"name":"` + strings.Repeat("n", 10_000) + `"}`,
}

// hugeSeeds are left out while fuzzing: their mutants cost a second each.
func hugeSeeds() []string {
	if fuzzing := flag.Lookup("test.fuzz"); fuzzing != nil && fuzzing.Value.String() != "" {
		return nil
	}
	return []string{
		`{"a":"` + strings.Repeat("x", 10<<20) + `"}`,
		strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		strings.Repeat(`{"a":`, 100_000),
		strings.Repeat("\xff", 10<<20),
	}
}

var escapes = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// loneSurrogate reports whether a valid text escapes half a surrogate pair.
func loneSurrogate(text string) bool {
	high := -1 // where an escaped high surrogate ended
	for _, at := range escapes.FindAllStringIndex(text, -1) {
		escape := text[at[0]:at[1]]
		r := uint64(0)
		if escape[1] == 'u' && len(escape) == 6 {
			r, _ = strconv.ParseUint(escape[2:], 16, 32)
		}
		isLow := r >= 0xdc00 && r <= 0xdfff
		if isLow != (high == at[0]) || high >= 0 && high != at[0] {
			return true
		}
		high = -1
		if r >= 0xd800 && r <= 0xdbff {
			high = at[1]
		}
	}
	return high >= 0
}

// levels is how deep a valid text nests.
func levels(text string) int {
	most, level, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			most = max(most, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return most
}

// FuzzScan compares with encoding/json, which accepts more: invalid UTF-8 and
// halves of surrogate pairs (it replaces them), and 10,000 levels.
func FuzzScan(f *testing.F) {
	for _, s := range append(hugeSeeds(), seeds...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Scan(text)
		valid := json.Valid([]byte(text)) && utf8.ValidString(text) && !loneSurrogate(text)
		deep := valid && levels(text) > sluice.MaxNestingLevels
		var e *Error
		switch {
		case errors.As(err, &e) && e.Cause == CauseTooDeep:
			if valid != deep {
				t.Fatalf("refused as too deep: %q: %v", text, err)
			}
		case (err == nil) != (valid && !deep):
			t.Fatalf("valid %v, deep %v, but Scan says %v: %q", valid, deep, err, text)
		}
		if err != nil && (e == nil || e.Offset < 0 || e.Offset > len(text) || e.Reason == "") {
			t.Fatalf("poor error %+v: %q", err, text)
		}
		compareMembers(t, text, v, err)
	})
}

// compareMembers walks over the text's members and over encoding/json's.
func compareMembers(t *testing.T, text string, v Value, scanned error) {
	m := Read(text)
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	if scanned == nil && v.Kind == Object {
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
	}
	for m.Next() {
		if text[m.Start] != '"' || text[m.End-len(m.Value.Raw):m.End] != m.Value.Raw {
			t.Fatalf("member %q stands elsewhere: %q", m.Key, text)
		}
		if scanned != nil {
			continue
		}
		key, err := dec.Token()
		if err != nil || key != m.Key {
			t.Fatalf("got key %q, want %v (%v): %q", m.Key, key, err, text)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil || string(raw) != m.Value.Raw {
			t.Fatalf("got value %q, want %q (%v): %q", m.Value.Raw, raw, err, text)
		}
		compareValue(t, m.Value)
	}
	switch err := m.Err(); {
	case scanned == nil && v.Kind != Object:
		var e *Error
		if !errors.As(err, &e) || e.Cause != CauseNotObject {
			t.Fatalf("no object, but Members says %v: %q", err, text)
		}
	case (err == nil) != (scanned == nil) || err != nil && err.Error() != scanned.Error():
		t.Fatalf("Members says %v, Scan %v: %q", err, scanned, text)
	case err == nil && dec.More():
		t.Fatalf("members left out: %q", text)
	}
}

func compareValue(t *testing.T, v Value) {
	var want any
	_ = json.Unmarshal([]byte(v.Raw), &want) // numbers beyond float64 give an error
	kind := Number
	switch s := want.(type) {
	case string:
		kind = String
		if v.Text() != s || string(v.AppendText(nil)) != s || len(s) > len(v.Raw) {
			t.Fatalf("got text %q, want %q", v.Text(), s)
		}
	case bool:
		kind = Bool
	case map[string]any:
		kind = Object
	case []any:
		kind = Array
	case nil:
		if v.Raw == "null" {
			kind = Null
		}
	}
	if v.Kind != kind {
		t.Fatalf("got %v, want %v: %q", v.Kind, kind, v.Raw)
	}
}
