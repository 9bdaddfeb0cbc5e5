package jsonscan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
)

// walk reads all members, the last one of each key winning.
func walk(text string) (map[string]Value, error) {
	values := map[string]Value{}
	m := Read(text)
	for m.Next() {
		values[m.Key] = m.Value
	}
	if m.Next() {
		return nil, errors.New("Next goes on behind the end")
	}
	return values, m.Err()
}

func nested(levels int, open, inner, end string) string {
	return strings.Repeat(open, levels) + inner + strings.Repeat(end, levels)
}

func TestMembers(t *testing.T) {
	text := " {\"a\" : \"x\" ,\t\"b\":-0.5e+3,\r\n\"c\":[1,{\"d\":[]}, {}] , \"\":null,\"t\\u0041\":true,\"é\":\"\\u00e9\\ud83d\\ude00\\n\", \"a\":{\"a\":1}}\n "
	want := []struct {
		key, raw, text string
		kind           Kind
	}{
		{"a", `"x"`, "x", String},
		{"b", "-0.5e+3", "-0.5e+3", Number},
		{"c", `[1,{"d":[]}, {}]`, `[1,{"d":[]}, {}]`, Array},
		{"", "null", "null", Null},
		{"tA", "true", "true", Bool},
		{"é", `"\u00e9\ud83d\ude00\n"`, "é😀\n", String},
		{"a", `{"a":1}`, `{"a":1}`, Object},
	}
	m := Read(text)
	for i, w := range want {
		if !m.Next() {
			t.Fatalf("member %d: none; error %v", i, m.Err())
		}
		v := m.Value
		if m.Key != w.key || v.Raw != w.raw || v.Kind != w.kind || v.Text() != w.text {
			t.Errorf("member %d: got %q %+v %q, want %+v", i, m.Key, v, v.Text(), w)
		}
		if got := string(v.AppendText([]byte("_"))); got != "_"+w.text {
			t.Errorf("member %d: AppendText gives %q", i, got)
		}
		if text[m.Start] != '"' || !strings.HasSuffix(text[:m.End], v.Raw) {
			t.Errorf("member %d: stands at %q", i, text[m.Start:m.End])
		}
	}
	if m.Next() || m.Err() != nil {
		t.Errorf("want the end, got %q, %v", m.Key, m.Err())
	}
}

// TestRefused lists what is refused, where, and what was expected there. Each
// text is also tried inside an array and inside an object's member, where the
// nested scanner must say the same.
func TestMarshal(t *testing.T) {
	text, err := Marshal(map[string]any{"a": "<&>", "b": json.RawMessage(` { "c" : "\n" } `)})
	if want := `{"a":"<&>","b":{"c":"\n"}}`; err != nil || string(text) != want {
		t.Errorf("got %q (%v), want %q", text, err, want)
	}
	if text, err := Marshal(json.RawMessage("{")); err == nil {
		t.Errorf("got %q of half an object", text)
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		text   string
		offset int
		reason string
	}{
		{``, 0, "want a value, got the end"},
		{`nope`, 0, "want true, false or null, got 'n'"},
		{`True`, 0, "want a value, got 'T'"},
		{"\ufeff{}", 0, `want a value, got '\ufeff'`},
		{"\x00", 0, `want a value, got '\x00'`},
		{`{`, 1, "want a member's name in quotes, got the end"},
		{`{"a"`, 4, "want a colon behind a member's name, got the end"},
		{`{"a":`, 5, "want a value, got the end"},
		{`{"a":1`, 6, "want a comma or a closing brace, got the end"},
		{`{"a":1]`, 6, "want a comma or a closing brace, got ']'"},
		{`{"a":1,}`, 7, "want a member's name in quotes, got '}'"},
		{`{a:1}`, 1, "want a member's name in quotes, got 'a'"},
		{`{,}`, 1, "want a member's name in quotes, got ','"},
		{`{"a" 1}`, 5, "want a colon behind a member's name, got '1'"},
		{`{"a":1 "b":2}`, 7, `want a comma or a closing brace, got '"'`},
		{`[1,]`, 3, "want a value, got ']'"},
		{`[1 2]`, 3, "want a comma or a closing bracket, got '2'"},
		{`[1}`, 2, "want a comma or a closing bracket, got '}'"},
		{`01`, 1, "want no digit behind a leading zero, got '1'"},
		{`-`, 1, "want a digit, got the end"},
		{`-x`, 1, "want a digit, got 'x'"},
		{`1.`, 2, "want a digit, got the end"},
		{`1.e1`, 2, "want a digit, got 'e'"},
		{`1e+`, 3, "want a digit, got the end"},
		{`+1`, 0, "want a value, got '+'"},
		{`.5`, 0, "want a value, got '.'"},
		{`NaN`, 0, "want a value, got 'N'"},
		{`"a`, 2, "want a closing quote, got the end"},
		{"\"a\nb\"", 2, `want control characters in strings escaped, got '\n'`},
		{"\"12345678\x1f\"", 9, `want control characters in strings escaped, got '\x1f'`},
		{`"\x"`, 2, `want one of "\/bfnrtu behind a backslash, got 'x'`},
		{`"\u12g4"`, 2, `want four hexadecimal digits behind \u, got 'u'`},
		{`"\ud800"`, 2, "want surrogates in pairs, high before low, got 'u'"},
		{`"\udc00\udc00"`, 2, "want surrogates in pairs, high before low, got 'u'"},
		{`"\udc00\ud800"`, 2, "want surrogates in pairs, high before low, got 'u'"},
		{`"\ud800\u0041"`, 2, "want surrogates in pairs, high before low, got 'u'"},
		{"\"a\xff\"", 2, "want UTF-8, got the byte 0xff"},
		{"\"\xed\xa0\x80\"", 1, "want UTF-8, got the byte 0xed"},
		{"\"\xc0\xaf\"", 1, "want UTF-8, got the byte 0xc0"},
		{"\"\xf0\x9f\"", 1, "want UTF-8, got the byte 0xf0"},
	}
	for _, tt := range tests {
		for _, around := range []struct{ before, behind string }{{"", ""}, {"[", ""}, {`{"k":`, ""}, {`{"k":[0,{"":`, ""}} {
			text := around.before + tt.text
			offset := tt.offset + len(around.before)
			_, err := Scan(text)
			var e *Error
			if !errors.As(err, &e) || e.Cause != CauseSyntax || e.Offset != offset || e.Reason != tt.reason {
				t.Errorf("%q: got %+v, want offset %d, %s", text, e, offset, tt.reason)
			}
			if _, walked := walk(text); walked == nil || walked.Error() != err.Error() {
				t.Errorf("%q: Members says %v, Scan %v", text, walked, err)
			}
		}
	}
	for _, text := range []string{`{} x`, `{}{}`, `1 2`, `"" ,`} {
		if _, err := Scan(text); err == nil || !strings.HasPrefix(err.Error(), "not JSON: want nothing behind the value") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestNotObject(t *testing.T) {
	for text, want := range map[string]string{
		`[{"a":1}]`: "an array", `"x"`: "a string", ` 1e400 `: "a number", `null`: "null", `false`: "a boolean",
	} {
		_, err := walk(text)
		var e *Error
		if !errors.As(err, &e) || e.Cause != CauseNotObject || err.Error() != "not an object: it is "+want {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestNesting(t *testing.T) {
	const most = sluice.MaxNestingLevels
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{nested(most, "[", "", "]"), true},
		{nested(most, "[", "1", "]"), true},
		{nested(most, `{"a":`, "{}", "}"), false},
		{nested(most-1, `{"a":`, "{}", "}"), true},
		{nested(most-1, `{"a":`, `[[]]`, "}"), false},
		{nested(most/2, `[{"a":`, `1`, "}]"), true},
		{nested(most/2, `[{"a":`, `[]`, "}]"), false},
		{nested(100_000, "[", "", "]"), false},
		{strings.Repeat(`{"a":`, 100_000), false},
	} {
		for _, read := range []func(string) (any, error){
			func(s string) (any, error) { return Scan(s) },
			func(s string) (any, error) { return walk(s) },
		} {
			_, err := read(tt.text)
			var e *Error
			tooDeep := errors.As(err, &e) && e.Cause == CauseTooDeep
			if tooDeep == tt.ok {
				t.Errorf("%.40s...: got %v, want ok %v", tt.text, err, tt.ok)
			}
		}
	}
}

// TestPlainEnd puts each byte at each place of a string: the eight-byte steps
// must stop where a look at each byte would.
func TestPlainEnd(t *testing.T) {
	for place := range 20 {
		for c := range 256 {
			for _, fill := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f} {
				text := []byte(strings.Repeat(string(fill), 20))
				text[place] = byte(c)
				stops := c < ' ' || c >= 0x80 || c == '"' || c == '\\'
				want := len(text)
				if stops {
					want = place
				}
				if got := plainEnd(string(text), 0); got != want {
					t.Fatalf("%q: got %d, want %d", text, got, want)
				}
			}
		}
	}
}

func TestLargeTexts(t *testing.T) {
	long := strings.Repeat("é\\u00e9 plain ", 10<<20/16)
	values, err := walk(`{"a":"` + long + `","b":[` + strings.Repeat("0,", 1<<20) + `0]}`)
	if err != nil {
		t.Fatal(err)
	}
	var want string
	if err := json.Unmarshal([]byte(values["a"].Raw), &want); err != nil {
		t.Fatal(err)
	}
	if values["a"].Text() != want {
		t.Error("the text differs from what encoding/json decodes")
	}
}

func TestNoAllocations(t *testing.T) {
	text := sample(0)
	buffer := make([]byte, 0, 64)
	escaped := `{"a":"\u00e9\n"}`
	got := testing.AllocsPerRun(100, func() {
		m := Read(text)
		for m.Next() {
			_ = m.Value.Text()
		}
		if m.Err() != nil {
			t.Fatal(m.Err())
		}
		m = Read(escaped)
		for m.Next() {
			buffer = m.Value.AppendText(buffer[:0])
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// sample is an element of the commonest shape, about 180 bytes.
func sample(i int) string {
	return fmt.Sprintf(`{"id": %d, "event": "click", "email": "user%d@example.com", "timestamp": %d, "ip": "10.0.0.1", "ua": "Mozilla/5.0 (X11; Linux) Gecko", "campaign": "c%d"}`,
		1000000001+i, i, 1700000001+i, i%10)
}
