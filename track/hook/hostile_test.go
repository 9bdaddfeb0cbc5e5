package hook

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice"
	"sluice/ingest"
)

func parse(t testing.TB, provider, body string) Result {
	t.Helper()
	p, err := Find(provider)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Parse(&Request{Body: []byte(body)})
	if err != nil {
		t.Fatalf("%s: %v", provider, err)
	}
	return r
}

// checkEvent says what every event keeps to, whatever the body was.
func checkEvent(t testing.TB, e *Event) {
	t.Helper()
	if word, _, ok := ingest.MailWord(e.Type); !ok || word != e.Type {
		t.Errorf("type %q is none of our words", e.Type)
	}
	for _, one := range []struct {
		name, text string
		most       int
		oneLine    bool
	}{
		{"recipient", e.Recipient, sluice.MaxEmailBytes, true},
		{"message id", e.MessageID, MaxMessageIDBytes, true},
		{"event id", e.EventID, sluice.MaxEventIDBytes, true},
		{"description", e.Description, MaxTextBytes, false},
		{"reply", e.MTAResponse, MaxTextBytes, false},
		{"user agent", e.UserAgent, MaxUserAgentBytes, true},
		{"URL", e.ClickURL, MaxURLBytes, true},
		{"tags", strings.Join(e.Tags, ""), MaxTags * MaxTagBytes, true},
	} {
		if len(one.text) > one.most || !utf8.ValidString(one.text) || strings.ContainsRune(one.text, 0) || one.oneLine && strings.ContainsAny(one.text, "\r\n") {
			t.Errorf("%s has %d bytes, or characters that it must not have: %.100q", one.name, len(one.text), one.text)
		}
	}
	if e.EventID == "" || len(e.Tags) > MaxTags || e.Timed && (e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis) {
		t.Errorf("event id %q, %d tags, time %d", e.EventID, len(e.Tags), e.TimeMillis)
	}
	bytes := 0
	for _, m := range e.Metadata {
		bytes += len(m.Name) + len(m.Value)
		if !json.Valid([]byte(m.Value)) {
			t.Errorf("metadata %q is no JSON: %.100q", m.Name, m.Value)
		}
	}
	if bytes > MaxMetadataBytes || len(e.Metadata) > MaxMetadata {
		t.Errorf("metadata has %d bytes in %d members", bytes, len(e.Metadata))
	}
	if text, err := json.Marshal(e); err != nil || !json.Valid(text) {
		t.Errorf("encoded as %.100s, %v", text, err)
	}
}

// Long texts are cut at the end of a character, long names are left out, a long id of an
// event is replaced by one that follows from it.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", 5<<15) // 320 KB, five times
	r := parse(t, "sendgrid", `[{"event":"bounce","email":"`+long+`","reason":"`+long+`","useragent":"x`+long+`","url":"`+long+`","sg_event_id":"`+long+`","smtp-id":"<`+long[:600]+`>","category":"`+long[:2000]+`"}]`)
	e := r.Events[0]
	checkEvent(t, &e)
	if e.Recipient != "" || e.MessageID != "" || e.MTAResponse != long[:MaxTextBytes] || e.UserAgent != "x"+long[:MaxUserAgentBytes-2] || e.ClickURL != long[:MaxURLBytes] || len(e.Tags) != 1 || len(e.Tags[0]) != MaxTagBytes-1 || len(e.EventID) != 32 {
		t.Errorf("got %.60q, %.60q, %d, %d, %d, %d, %q", e.Recipient, e.MessageID, len(e.MTAResponse), len(e.UserAgent), len(e.ClickURL), len(e.Tags), e.EventID)
	}
	if again := parse(t, "sendgrid", `[{"event":"open","sg_event_id":"`+long+`"}]`); again.Events[0].EventID != e.EventID {
		t.Errorf("another id for the same long one: %q and %q", again.Events[0].EventID, e.EventID)
	}
}

func TestManyTagsAndMetadata(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		b.WriteString(`"m` + strings.Repeat("x", i) + `":"` + strings.Repeat("v", 100) + `",`)
	}
	r := parse(t, "sendgrid", `{"event":"open",`+b.String()+`"category":[`+strings.Repeat(`"t",`, 999)+`"t"],"sg_event_id":"1"}`)
	checkEvent(t, &r.Events[0])
	if len(r.Events[0].Tags) != MaxTags || len(r.Events[0].Metadata) < 50 {
		t.Errorf("%d tags, %d members", len(r.Events[0].Tags), len(r.Events[0].Metadata))
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	var manyRecipients strings.Builder
	for i := range MaxElements/maxValues + 1 {
		manyRecipients.WriteString(`{"n":` + strconv.Itoa(i) + `,"eventType":"Send","mail":{"destination":[` + strings.Repeat(`"a",`, maxValues) + `"a"]}},`)
	}
	for _, tt := range []struct{ provider, body, want string }{
		{"sendgrid", strings.Repeat(" ", MaxBodyBytes+1), "it has 16777217 bytes, the limit is 16777216"},
		{"mailgun", "event=" + strings.Repeat("x", MaxBodyBytes), "the limit is 16777216"},
		{"mandrill", strings.Repeat("x", MaxBodyBytes+1), "the limit is 16777216"},
		{"sparkpost", "[" + strings.Repeat("{},", MaxElements) + "{}]", "events or more, the limit is 10000"},
		{"ses", "[" + manyRecipients.String() + "{}]", "events or more, the limit is 10000"},
		{"ses", strings.Repeat("{}\n", MaxElements+1), "it has 10001 events or more, the limit is 10000"},
		{"postmark", "", "neither a JSON object nor an array"},
		{"postmark", "event=x", "neither a JSON object nor an array"},
		{"ses", `"text"`, "neither a JSON object nor an array"},
		{"mailgun", "a=b", "neither a JSON object nor an array"},
		{"mailgun", strings.Repeat("a&", maxFields), "more than 1000 fields"},
		{"mailgun", "--\nx", "no boundary"},
		{"mailgun", "--" + strings.Repeat("b", 71) + "\nx", "no boundary"},
		{"mandrill", "mandrill_events=%zz", "neither a JSON object nor an array"},
		{"mandrill", "mandrill_events=7", "neither a JSON object nor an array"},
	} {
		p, err := Find(tt.provider)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(&Request{Body: []byte(tt.body)}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %.40q: %v, want %q", tt.provider, tt.body, err, tt.want)
		}
	}
}

// An element that cannot be read is one event with its text, and costs no other.
func TestUnreadableElements(t *testing.T) {
	const good = `{"event":"open","sg_event_id":"good"}`
	for _, bad := range []string{
		`{"event":"open"`, `{event:1}`, `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `tru`, `"text"`, `[1]`, "{\"a\":\"\x01\"}", `{"a":1}}`, `{"a":"\x"}`,
		`{` + strings.Repeat(`"k":1,`, 3) + `}`,
	} {
		r := parse(t, "sendgrid", "["+good+","+bad+"]")
		if len(r.Events) != 2 || r.Events[0].EventID != "good" || r.Events[1].Type != sluice.EventUnknown || !strings.HasPrefix(r.Events[1].Description, bad[:min(len(bad), 3)]) {
			t.Errorf("%.40q: %+v", bad, r.Events)
		}
		for i := range r.Events {
			checkEvent(t, &r.Events[i])
		}
	}
	var many strings.Builder
	for i := range maxMembers + 1 {
		many.WriteString(`"` + strings.Repeat("k", i%100) + string(rune('a'+i/100%26)) + string(rune('a'+i/2600)) + `":1,`)
	}
	if r := parse(t, "sendgrid", `[{`+many.String()+`"event":"open"},`+good+`]`); len(r.Events) != 2 || r.Events[0].Type != sluice.EventUnknown {
		t.Errorf("too many members: %d events, %q", len(r.Events), r.Events[0].Type)
	}
}

func TestClean(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{"\ufeff[]", "[]"},
		{"a\xffb", "a\ufffdb"},
		{`"\ud83d"`, `"\ufffd"`},
		{`"\ude00\ud83d"`, `"\ufffd\ufffd"`},
		{`"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{`"\ud83d\u0041"`, `"\ufffd\u0041"`},
		{`"\u0000"`, `"\ufffd"`},
		{`"\\u0000"`, `"\\u0000"`},
		{`"\u00zz"`, `"\u00zz"`},
		{`\`, `\`},
		{`\u0000\`, `\ufffd\`},
	} {
		if got := clean([]byte(tt.body)); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.body, got, tt.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ array, want string }{
		{`[]`, ``},
		{`[ ]`, ``},
		{`[1,2]`, `1|2`},
		{`[{"a":[1,2]}, "x,y]" ,{}]`, `{"a":[1,2]}|"x,y]"|{}`},
		{`["\",",2]`, `"\","|2`},
		{`[1,,2]`, `1|2`},
		{`[1,2`, `1|2`},
		{`[{"a":1,2]`, `{"a":1,2]`},
		{`[1] 2`, `1|2`},
		{`[`, ``},
		{`[}]`, `}`},
	} {
		if got := strings.Join(split(tt.array, 10), "|"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.array, got, tt.want)
		}
	}
	if got := split("[1,1,1,1,1]", 2); len(got) != 3 {
		t.Errorf("%d elements, want one more than 2", len(got))
	}
}

// A tag of ours names the message before the provider's id does. The provider's id is
// kept beside it.
func TestOwnSend(t *testing.T) {
	const send = "0193590f2a6b7c8d9e0f1a2b3c4d5e6f"
	for _, tt := range []struct{ member, want string }{
		{`"send":"` + send + `.3"`, send + ".3"},
		{`"sluice-send":"` + send + `-0"`, send + ".0"},
		{`"send":"` + send + `"`, "theirs"},
		{`"send":"7-1"`, "theirs"},
		{`"send":7`, "theirs"},
	} {
		e := parse(t, "sendgrid", `{"event":"open","sg_message_id":"theirs.x",`+tt.member+`}`).Events[0]
		if e.MessageID != tt.want || e.ProviderID != "theirs" {
			t.Errorf("%s: got %q and %q", tt.member, e.MessageID, e.ProviderID)
		}
	}
}

// The id of an event that has none follows from its element alone, and two events of one
// element have two.
func TestEventIDs(t *testing.T) {
	one := `{"RecordType":"Open","Recipient":"ann@example.com","ReceivedAt":"2026-11-05T16:33:54Z"}`
	a := parse(t, "postmark", one).Events[0]
	b := parse(t, "postmark", " ["+one+",  "+one+"] ").Events
	c := parse(t, "postmark", strings.Replace(one, ":54Z", ":55Z", 1)).Events[0]
	if len(b) != 1 || a.EventID != b[0].EventID || a.EventID == c.EventID {
		t.Errorf("ids %q, %v, %q", a.EventID, b, c.EventID)
	}
	if derived("a", "bc") == derived("ab", "c") {
		t.Error("two pairs of texts have one id")
	}
}

// Lines of a form end in CRLF (RFC 2046, 5.1.1); saved ones end in LF, and may begin with
// an empty line.
func TestLinesOfForms(t *testing.T) {
	body := "--b 1\nContent-Disposition: form-data; name=\"event\"\n\nopened\n--b 1\nContent-Disposition: form-data; name=\"token\"\n\nt1\n--b 1--\n"
	for _, form := range []string{body, "\n" + body, strings.ReplaceAll(body, "\n", "\r\n"), "\r\n" + strings.ReplaceAll(body, "\n", "\r\n")} {
		r := parse(t, "mailgun", form)
		if len(r.Events) != 1 || r.Events[0].Type != sluice.EventOpened || r.Events[0].EventID != "t1" {
			t.Errorf("%q: %+v", form, r.Events)
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{"SES": "ses", "pepipost": "netcore", "sendinblue": "brevo", "mailgun": "mailgun"} {
		if p, err := Find(name); err != nil || p.Name != want {
			t.Errorf("%s: %q, %v", name, p.Name, err)
		}
	}
	if _, err := Find("sendgird"); err == nil || !strings.Contains(err.Error(), "sendgrid") {
		t.Errorf("an unknown one: %v", err)
	}
	if names := Names(); len(names) != 10 || !slices.Contains(names, "mandrill") {
		t.Errorf("names %v", names)
	}
}

// FuzzParse gives each provider any body: it may be refused, but neither end the program
// nor give an event that is out of bounds, and a repeat says the same.
func FuzzParse(f *testing.F) {
	for i, p := range Providers {
		for _, e := range examples(f, p.Name) {
			f.Add(byte(i), []byte(e.body))
		}
	}
	f.Fuzz(func(t *testing.T, number byte, body []byte) {
		p := Providers[int(number)%len(Providers)]
		r, err := p.Parse(&Request{Body: body})
		if err != nil {
			return
		}
		ids := make(map[string]bool)
		for i := range r.Events {
			checkEvent(t, &r.Events[i])
			ids[r.Events[i].EventID] = true
			var event sluice.Event
			if err := ingest.ParseEvent(string(r.Events[i].AppendElement(nil, "main")), &ingest.EventOptions{Dedupe: "event_id", StableNow: true}, &event); err != nil || event.ID != r.Events[i].EventID {
				t.Errorf("event %q is none of ingest: %v", event.ID, err)
			}
		}
		if len(ids) != len(r.Events) {
			t.Errorf("%d events have %d ids", len(r.Events), len(ids))
		}
		again, err := p.Parse(&Request{Body: body})
		if err != nil || lines(t, again) != lines(t, r) {
			t.Errorf("a repeat says something else: %v", err)
		}
	})
}
