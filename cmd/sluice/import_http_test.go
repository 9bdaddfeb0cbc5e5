package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// pieced is an import whose file a test sends in pieces.
type pieced struct {
	s    *served
	id   string
	file string
}

// begin begins one; more are members of the body.
func (s *served) begin(t *testing.T, file, more string) *pieced {
	t.Helper()
	status, text := s.ask(t, "POST", "/v1/imports", fmt.Sprintf(`{"name":"old","size":%d,%s}`, len(file), more))
	var i struct{ ID string }
	if err := json.Unmarshal([]byte(text), &i); status != http.StatusCreated || err != nil {
		t.Fatalf("begin: %d %s", status, text)
	}
	return &pieced{s, i.ID, file}
}

// answeredPiece is what a piece is answered.
type answeredPiece struct {
	NextOffset   int64 `json:"next_offset"`
	Lines, Taken int64
	RefusedCount int64 `json:"refused_count"`
	Refused      []struct {
		Line   int64
		Reason string
	}
	Repeated  bool
	WantBytes int64 `json:"want_bytes"`
	Error     struct {
		Code, Message string
		NextOffset    *int64 `json:"next_offset"`
	}
}

// piece sends a part of the file.
func (p *pieced) piece(t *testing.T, from, to int64) (status int, a answeredPiece) {
	t.Helper()
	return p.content(t, from, p.file[from:min(to, int64(len(p.file)))])
}

func (p *pieced) content(t *testing.T, offset int64, content string) (status int, a answeredPiece) {
	t.Helper()
	status, text := p.s.ask(t, "POST", fmt.Sprintf("/v1/imports/%s/pieces?offset=%d", p.id, offset), content)
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("piece at %d: %d %s", offset, status, text)
	}
	return status, a
}

// all sends the file in pieces of a size, or larger ones where they are wanted, and ends it.
func (p *pieced) all(t *testing.T, size int64) {
	t.Helper()
	for offset, want := int64(0), size; offset < int64(len(p.file)); {
		status, a := p.piece(t, offset, offset+want)
		if status != http.StatusOK {
			t.Fatalf("piece at %d: %d %+v", offset, status, a)
		}
		if want = max(size, a.WantBytes); a.WantBytes == 0 && a.NextOffset <= offset {
			t.Fatalf("piece at %d: nothing was taken: %+v", offset, a)
		}
		offset = a.NextOffset
	}
	p.finish(t)
}

func (p *pieced) finish(t *testing.T) {
	t.Helper()
	for range 2 { // a repeat does no harm
		if status, text := p.s.ask(t, "POST", "/v1/imports/"+p.id+"/finish", ""); status != http.StatusOK || !strings.Contains(text, `"state":"done"`) {
			t.Fatalf("finish: %d %s", status, text)
		}
	}
}

// shows is what GET shows of it.
func (p *pieced) shows(t *testing.T, path string) string {
	t.Helper()
	status, text := p.s.ask(t, "GET", "/v1/imports/"+p.id+path, "")
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, text)
	}
	return text
}

func (p *pieced) awaitStored(t *testing.T) {
	t.Helper()
	await(t, "all is stored", func() bool { return strings.Contains(p.shows(t, ""), `"still_to_be_stored":0,`) })
}

// csvLines are a CSV of events without ids, with quotes that go over several lines, and
// lines that are refused.
func csvLines(rows int) string {
	var b strings.Builder
	b.WriteString("\uFEFFaction;when;user;note;secret\r\n")
	start := time.Now().Add(-48 * time.Hour).UTC().Truncate(time.Hour)
	for i := range rows {
		fmt.Fprintf(&b, "seen;%s;u%d;\"line %d\n\n\"\"quoted\"\";%s\";hidden\r\n", start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i%50, i, strings.Repeat("x", i%200))
		if i%1000 == 999 {
			b.WriteString("seen;soon;u1;bad time;hidden\r\n")
		}
	}
	return b.String()
}

// A file in pieces makes the events that the command makes of the whole, with the same ids;
// undone, they are gone, and nothing else is.
func TestImportByHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	file := csvLines(5000)
	const how = `"kind":"events","app_id":"shop","columns":{"action":"event","when":"time","secret":""}`
	p := s.begin(t, file, how)
	if len(file) < 6<<16 {
		t.Fatalf("the file has %d bytes only", len(file))
	}
	p.all(t, 64<<10)
	p.awaitStored(t)
	text := p.shows(t, "")
	for _, want := range []string{`"lines":5005,"taken":5000,"refused_count":5,"removed":0,`, `"by":"root key"`, `{"line":`, `time not understood: \"…\"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	await(t, "all events are counted", func() bool { // an answer counts for 10 s at most
		return strings.Contains(p.shows(t, "/events"), `{"events":5000,"still_to_be_stored":0,"whole":true}`)
	})
	if got := s.texts(t, `SELECT COUNT(*) FROM events WHERE properties LIKE '%hidden%' OR properties NOT LIKE '%quoted%' OR app_id != 'shop'`)[0]; got != "0" {
		t.Errorf("%s events have what is left out, or lack what is not", got)
	}
	path := filepath.Join(dir, "old.csv")
	write(t, path, file)
	if r := importSeen(t, dir, "events", "--columns", "action=event,when=time,secret=", "--app-id", "shop", path); r.code != exitFailed || !strings.Contains(r.stdout, "all are stored: 0 are new, 5,000 were there already") {
		t.Fatalf("the command: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	again := s.begin(t, file, how)
	again.all(t, 1<<20)
	again.awaitStored(t)
	if got := again.shows(t, "/events"); !strings.Contains(got, `{"events":0,`) {
		t.Errorf("imported twice: %s", got)
	}
	s.accepted(t, 1, `{"event":"other","app_id":"shop","user_id":"u1"}`)
	undo := func(p *pieced, removed string) {
		t.Helper()
		var status int
		var text string
		await(t, "it is undone", func() bool { // an answer may come before the end
			status, text = s.ask(t, "POST", "/v1/imports/"+p.id+"/undo", "")
			return status != http.StatusOK || !strings.Contains(text, `"state":"undoing"`)
		})
		if status != http.StatusOK || !strings.Contains(text, `"state":"undone"`) || !strings.Contains(text, `"removed":`+removed+`,`) {
			t.Fatalf("undo: %d %s", status, text)
		}
	}
	undo(again, "0")
	undo(p, "5000")
	undo(p, "5000") // a repeat changes nothing
	await(t, "only the other is left", func() bool { return s.texts(t, "SELECT COUNT(*) FROM events")[0] == "1" })
	await(t, "the series have it alone", func() bool { return s.texts(t, "SELECT TOTAL(count) FROM series_days WHERE kind = 'custom'")[0] == "1" })
	if status, a := p.piece(t, 0, 1<<20); status != http.StatusConflict {
		t.Errorf("a piece of what is undone: %d %+v", status, a)
	}
	s.importsListed(t, again.id, p.id)
}

// importsListed checks the pages of the list.
func (s *served) importsListed(t *testing.T, ids ...string) {
	t.Helper()
	before := ""
	for _, id := range ids {
		status, text := s.ask(t, "GET", "/v1/imports?limit=1"+before, "")
		if status != http.StatusOK || !strings.Contains(text, `"id":"`+id+`"`) {
			t.Fatalf("imports%s: %d %s", before, status, text)
		}
		before = "&before=" + id
	}
	if _, text := s.ask(t, "GET", "/v1/imports?limit=1"+before, ""); text != "{\"imports\":[]}\n" {
		t.Errorf("the last page: %s", text)
	}
}

// Pieces that begin elsewhere, are too small, packed, or of another file are refused and
// change nothing; one that was sent before is answered as then.
func TestPiecesOfImports(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir())
	file := importLines(0, 3000)
	p := s.begin(t, file, `"kind":"events","columns":{"action":"event","when":"time"}`)
	half := int64(80 << 10)
	for name, tt := range map[string]struct {
		offset, from, to int64
		status           int
		says             string
	}{
		"at another offset":    {7, 0, half, http.StatusConflict, "offset 0"},
		"too small":            {0, 0, 1000, http.StatusBadRequest, "fewer than 65536 bytes"},
		"empty":                {0, 0, 0, http.StatusBadRequest, "empty"},
		"below the beginning":  {-1, 0, half, http.StatusBadRequest, "offset"},
		"of no such import":    {0, 0, half, http.StatusNotFound, "no import"},
		"packed":               {0, 0, 0, http.StatusBadRequest, "packed"},
		"longer than the file": {0, 0, int64(len(file)), http.StatusBadRequest, "beyond the file"},
	} {
		q, content := *p, file[tt.from:tt.to]
		switch name {
		case "of no such import":
			q.id = "none"
		case "packed":
			content = packed(t, file)
			content += strings.Repeat("x", max(0, 64<<10-len(content)))
		case "longer than the file":
			content += "x"
		}
		if status, a := q.content(t, tt.offset, content); status != tt.status || !strings.Contains(a.Error.Message, tt.says) {
			t.Errorf("%s: %d %+v", name, status, a)
		}
	}
	status, first := p.piece(t, 0, half)
	if status != http.StatusOK || first.Taken == 0 || first.NextOffset > half || file[first.NextOffset-1] != '\n' {
		t.Fatalf("the first piece: %d %+v", status, first)
	}
	want := first
	want.Repeated = true
	if status, a := p.piece(t, 0, half); status != http.StatusOK || fmt.Sprint(a) != fmt.Sprint(want) {
		t.Errorf("repeated: %d %+v", status, a)
	}
	status, a := p.piece(t, half, 2*half)
	if status != http.StatusConflict || a.Error.NextOffset == nil || *a.Error.NextOffset != first.NextOffset {
		t.Errorf("behind the next: %d %+v", status, a)
	}
	if status, text := s.ask(t, "POST", "/v1/imports/"+p.id+"/finish", ""); status != http.StatusConflict || !strings.Contains(text, fmt.Sprintf(`"next_offset":%d`, first.NextOffset)) {
		t.Errorf("finished too early: %d %s", status, text)
	}
	if status, a = p.piece(t, first.NextOffset, int64(len(file))); status != http.StatusOK || a.NextOffset != int64(len(file)) {
		t.Errorf("the rest: %d %+v", status, a)
	}
	p.finish(t)
	p.awaitStored(t)
	if got := s.texts(t, "SELECT COUNT(*) FROM events")[0]; got != "3000" {
		t.Errorf("%s events", got)
	}
	users := s.begin(t, `{"external_id":"u"}`, `"kind":"users"`) // without an end of its line
	users.all(t, 64<<10)
	if status, text := s.ask(t, "POST", "/v1/imports/"+users.id+"/undo", ""); status != http.StatusConflict || !strings.Contains(text, "kept nowhere") {
		t.Errorf("undo of users: %d %s", status, text)
	}
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A line of a mebibyte, a quote that is open at the end of a piece or never closed, and
// a last line without its end: the same lines are taken and refused as by the command.
func TestBadFilesInPieces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	day := time.Now().Add(-24 * time.Hour).UTC().Format("2006-01-02")
	row := func(i int, note string) string {
		return fmt.Sprintf("e,%sT%02d:%02d:%02dZ,%s\n", day, i/3600%24, i/60%60, i%60, note)
	}
	many := func(rows int) (all string) {
		for i := range rows {
			all += row(i, "n")
		}
		return all
	}
	long := strings.Repeat("x", 1<<20)
	for name, file := range map[string]string{
		"a line of a mebibyte": "event,time,note\n" + row(1, long) + row(2, long[:len(long)-100]) + row(3, "y"),
		"a quote over pieces":  "event,time,note\n" + row(1, `"`+strings.Repeat("open\n", 40_000)+`"`) + many(3000),
		"a quote never closed": "event,time,note\n" + many(2000) + row(1, `"open`) + many(3000),
		"without an end":       "event,time,note\n" + many(4000) + strings.TrimSuffix(row(1, "last"), "\n"),
		"lines of NDJSON":      importLines(0, 2000) + `{"event":"` + long + long + `"}` + "\n" + "broken\n" + importLines(2000, 10),
	} {
		how, args := `"kind":"events"`, []string{"events", filepath.Join(dir, "file")}
		if strings.HasPrefix(file, "{") {
			how, args = how+`,"columns":{"action":"event","when":"time"}`, append(args, "--columns", "action=event,when=time")
		}
		p := s.begin(t, file, how)
		p.all(t, 64<<10)
		p.awaitStored(t)
		write(t, args[1], file)
		r := importSeen(t, dir, args...)
		var i struct {
			Lines, Taken int64
			Refused      int64 `json:"refused_count"`
		}
		if err := json.Unmarshal([]byte(p.shows(t, "")), &i); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s lines: %s events, 0 of an earlier run, %s rejected", grouped(i.Lines), grouped(i.Taken), grouped(i.Refused)); !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "0 are new") {
			t.Errorf("%s: in pieces %s, by the command\n%s%s", name, want, r.stdout, r.stderr)
		}
	}
}

// badLines are files whose lines have somebody's secret in every place where a line may be wrong.
func badLines(secret string) map[string]string {
	var events, exported, users strings.Builder
	long := strings.Repeat(secret, 300)
	for _, when := range []string{secret, "\"" + secret, "2026-01-01T" + secret, "99999-01-01" + secret, "\\\"" + secret, long} {
		quoted, _ := json.Marshal(when) // texts have a form
		fmt.Fprintf(&events, "{\"event\":\"e\",\"user_id\":%q,\"time\":%s}\n", secret, quoted)
		fmt.Fprintf(&exported, "{\"event_id\":\"1\",\"kind\":\"custom\",\"name\":\"e\",\"time\":%s}\n", quoted)
		fmt.Fprintf(&exported, "{\"event_id\":\"1\",\"kind\":%s,\"name\":\"e\",\"time\":\"2026-01-01T00:00:00Z\"}\n", quoted)
		for _, field := range []string{"external_id", "user_alias", "email", "phone", "dob", "gender", "country", "language", "time_zone", "date_of_first_session", "current_location", "push_tokens", "subscription_groups", "email_subscribe", "_update_existing_only"} {
			fmt.Fprintf(&users, "{\"external_id\":[%s],%q:%s}\n", quoted, field, quoted)
			fmt.Fprintf(&users, "{\"external_id\":\"u\",%q:[%s]}\n", field, quoted)
		}
	}
	fmt.Fprintf(&events, "{\"event\":[%q],\"time\":1}\n{%q\n{\"event\":%q,\"time\":\"2026-01-01\"}\n", secret, secret, long)
	return map[string]string{`"kind":"events"`: events.String(), `"kind":"events","exported":true`: exported.String(), `"kind":"users"`: users.String()}
}

// What is kept of refused lines names nobody: the answer to a piece quotes what is wrong, and
// no erasure has to look for it later.
func TestRefusedLinesNameNobody(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir())
	const secret = "zq7secret"
	told := false
	for how, file := range badLines(secret) {
		p := s.begin(t, file, how)
		status, a := p.piece(t, 0, int64(len(file)))
		if status != http.StatusOK || a.RefusedCount < 3 {
			t.Fatalf("%s: %d %+v", how, status, a)
		}
		told = told || strings.Contains(fmt.Sprint(a.Refused), secret)
		if text := p.shows(t, ""); strings.Contains(text, secret) || !strings.Contains(text, `"reason":"`) {
			t.Errorf("%s: %s", how, text)
		}
	}
	if !told {
		t.Error("no answer to a piece says what is wrong: this test shows nothing")
	}
	if found := s.texts(t, "SELECT reason FROM import_refused WHERE reason LIKE '%"+secret+"%'"); len(found) > 0 {
		t.Errorf("in the database: %q", found)
	}
}

// Several who send the same file at once import it once.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir())
	var b strings.Builder
	const lines, people = 6000, 20
	for i := range lines {
		fmt.Fprintf(&b, "{\"external_id\":\"u%d\",\"n\":{\"inc\":1},\"filler\":\"%s\"}\n", i%people, strings.Repeat("x", 100))
	}
	p := s.begin(t, b.String(), `"kind":"users"`)
	var group sync.WaitGroup
	for tab := range 3 {
		group.Go(func() {
			for offset := int64(0); offset < int64(len(p.file)); {
				status, a := p.piece(t, offset, offset+int64(64+16*tab)<<10)
				switch {
				case status == http.StatusOK:
					offset = a.NextOffset
				case status == http.StatusConflict && a.Error.NextOffset != nil:
					offset = *a.Error.NextOffset
				case status != http.StatusConflict && status != http.StatusServiceUnavailable:
					t.Errorf("tab %d at %d: %d %+v", tab, offset, status, a)
					return
				}
			}
		})
	}
	group.Wait()
	p.finish(t)
	p.awaitStored(t)
	if text := p.shows(t, ""); !strings.Contains(text, fmt.Sprintf(`"lines":%d,"taken":%d,`, lines, lines)) {
		t.Errorf("%s", text)
	}
	await(t, "all is applied", func() bool { return s.texts(t, "SELECT COUNT(*) FROM users")[0] == fmt.Sprint(people) })
	if got := s.texts(t, "SELECT TOTAL(json_extract(profile, '$.custom.n')) FROM users")[0]; got != fmt.Sprintf("%d.0", lines) && got != fmt.Sprint(lines) {
		t.Errorf("%s of %d increments", got, lines)
	}
}

// A preview says what columns become, and changes nothing.
func TestImportPreview(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir())
	for name, tt := range map[string]struct {
		body string
		code int
		want []string
	}{
		"a semicolon and guesses": {`{"kind":"events","text":"Event Name;Created At;Customer ID;size\nbought;2026-10-31T10:00:00Z;u1;5\n"}`, 200,
			[]string{`"Created At":"time"`, `"Customer ID":"user_id"`, `"Event Name":"event"`, `"delimiter":";"`, `"as":"property","samples":["5"]`, `"event":"bought"`, `"user_id":"u1"`, `"refused_count":0`}},
		"users by a mapping": {`{"kind":"users","columns":{"Mail":"email","x":""},"text":"Mail,x,plan\nAnn@Example.com,1,gold\n,2,\n"}`, 200,
			[]string{`"user":"ann@example.com","named_by":"email","attributes":{"email":"ann@example.com","plan":"gold"}`, `"as":"nothing"`, `"refused_count":1`, `"line":3`}},
		"an export":           {`{"kind":"events","text":"event_id,kind,name,time,app_id,email,user_id,message_id,properties\ne,custom,x,2026-10-31T10:00:00.000Z,,,,,\n"}`, 200, []string{`"exported":true`, `"event_id":"e"`}},
		"NDJSON":              {`{"kind":"events","text":"{\"event\":\"a\",\"time\":1760000000}\n{\"event\":\"b\"","size":100}`, 200, []string{`"lines":1,`, `"format":"ndjson"`}},
		"no kind":             {`{"text":"a"}`, 400, []string{"kind"}},
		"an array":            {`{"kind":"events","text":"[{}]"}`, 400, []string{"JSON array"}},
		"a column that is no": {`{"kind":"events","columns":{"when":"time"},"text":"a,b\n1,2\n"}`, 400, []string{`no column \"when\"`}},
		"empty":               {`{"kind":"events","text":" "}`, 400, []string{"empty"}},
		"too much":            {`{"kind":"events","text":"` + strings.Repeat("x", 70_000) + `"}`, 413, []string{"65536"}},
	} {
		status, text := s.ask(t, "POST", "/v1/imports/preview", tt.body)
		for _, want := range tt.want {
			if status != tt.code || !strings.Contains(text, want) {
				t.Errorf("%s: %d, %s is not in %s", name, status, want, text)
			}
		}
	}
	if n := s.texts(t, "SELECT COUNT(*) FROM imports")[0]; n != "0" {
		t.Errorf("%s imports", n)
	}
}
