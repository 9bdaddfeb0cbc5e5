package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sentFile is a file that a test sends in pieces, wherever the newest program listens.
type sentFile struct {
	w      *world
	client *http.Client
	id     string
	text   string
}

// imported is what calls of imports are answered.
type imported struct {
	ID              string
	NextOffset      int64 `json:"next_offset"`
	Lines, Taken    int64
	State           string
	Removed         int64
	StillToBeStored int64 `json:"still_to_be_stored"`
	status          int
	said            string
	WantBytes       int64 `json:"want_bytes"`
	RefusedCount    int64 `json:"refused_count"`
	Refused         []struct{ Line int64 }
}

// call makes a call; status 0: there was no answer.
func (f *sentFile) call(method, path, body string) imported {
	return callImport(f.client, method, f.w.awaitListen()+path, body)
}

func callImport(client *http.Client, method, url, body string) (a imported) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+httpRoot)
	res, err := client.Do(r)
	if err != nil {
		return imported{said: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return imported{said: err.Error()}
	}
	_ = json.Unmarshal(text, &a)
	a.status, a.said = res.StatusCode, string(text)
	return a
}

// answered makes a call again whose answer is lost, or says that a server is awaited. So may
// be on a busy machine, and a repeat does no harm.
func answered(ctx context.Context, call func() imported) (a imported) {
	for limit := time.Now().Add(settleWithin); ; pause(ctx, 20*time.Millisecond) {
		a = call()
		if a.status != 0 && a.status != http.StatusServiceUnavailable || time.Now().After(limit) || ctx.Err() != nil {
			return a
		}
	}
}

// until makes a call until it is answered 200 or 201.
func (f *sentFile) until(method, path, body string) (a imported) {
	f.w.t.Helper()
	f.w.eventually(method+" "+path, func() bool {
		a = f.call(method, path, body)
		return a.status == http.StatusOK || a.status == http.StatusCreated
	})
	return a
}

func (w *world) sends(text, kind string) *sentFile {
	w.t.Helper()
	f := &sentFile{w: w, client: &http.Client{Timeout: requestWithin}, text: text}
	w.t.Cleanup(f.client.CloseIdleConnections)
	f.id = f.until("POST", "/v1/imports", fmt.Sprintf(`{"name":"lines","kind":%q,"size":%d}`, kind, len(text))).ID
	return f
}

// piece sends one from an offset.
func (f *sentFile) piece(offset int64) imported {
	return f.call("POST", fmt.Sprintf("/v1/imports/%s/pieces?offset=%d", f.id, offset), f.text[offset:min(int64(len(f.text)), offset+1<<20)])
}

// all sends the rest of the file, from where the program says, and ends it.
func (f *sentFile) all() imported {
	f.w.t.Helper()
	for f.w.t.Context().Err() == nil {
		at := f.until("GET", "/v1/imports/"+f.id, "")
		if at.NextOffset == int64(len(f.text)) {
			break
		}
		f.piece(at.NextOffset)
	}
	f.until("POST", "/v1/imports/"+f.id+"/finish", "")
	f.w.eventually("all is stored", func() bool {
		a := f.call("GET", "/v1/imports/"+f.id, "")
		return a.status == http.StatusOK && a.StillToBeStored == 0
	})
	return f.until("GET", "/v1/imports/"+f.id, "")
}

// withRootKey lets a test make calls.
func (w *world) withRootKey() {
	w.t.Helper()
	file := filepath.Join(w.dir, "sluice.yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "root_key: "+httpRoot+"\n"...), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestKilledImportByHTTP kills the program before the append of a piece, between its
// appends, behind them, and before the import has moved. Each time the same piece is sent
// again, to another process: every line is applied once, and undoing removes all events.
func TestKilledImportByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRootKey()
	const lines, people = 40_000, 97
	var events, users strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		fmt.Fprintf(&events, "{\"event\":\"e\",\"user_id\":\"u%d\",\"message_id\":\"%d\",\"ts\":%d}\n", i%people, i, start+int64(i))
		fmt.Fprintf(&users, "{\"external_id\":\"u%d\",\"n\":{\"inc\":1},\"filler\":\"%s\"}\n", i%people, strings.Repeat("x", 50))
	}
	w.start("")
	files := []*sentFile{w.sends(events.String(), "events"), w.sends(users.String(), "users")}
	w.newest().kill()
	for _, f := range files {
		for _, step := range []string{"import=kill,1", "imported=kill,1", "import-piece=kill,1", "import-piece=kill,2"} {
			p := w.start(step)
			for at := f.until("GET", "/v1/imports/"+f.id, ""); !p.stopped() && at.NextOffset < int64(len(f.text)); {
				a := f.piece(at.NextOffset)
				if a.status == 0 {
					break
				}
				at.NextOffset = a.NextOffset
			}
			w.exits(p, "the program has killed itself at "+step)
		}
	}
	w.start("")
	for _, f := range files {
		if a := f.all(); a.Lines != lines || a.Taken != lines {
			t.Errorf("%d lines read, %d taken, of %d: %s", a.Lines, a.Taken, lines, a.said)
		}
	}
	const sum = "SELECT COALESCE(SUM(JSON_EXTRACT(profile, '$.custom.n')), 0) FROM users"
	w.eventually("all lines are applied", func() bool { return w.highest(sum) >= lines })
	if n, rows := w.highest(sum), w.highest("SELECT COUNT(*) FROM events"); n != lines || rows != lines {
		t.Fatalf("%d increments and %d events of %d", n, rows, lines)
	}
	w.eventually("the import is undone", func() bool { return files[0].call("POST", "/v1/imports/"+files[0].id+"/undo", "").State == "undone" })
	if n, counted := w.highest("SELECT COUNT(*) FROM events"), w.highest("SELECT COALESCE(SUM(count), 0) FROM series_days WHERE name = 'e'"); n != 0 || counted != 0 {
		t.Errorf("%d events are left, %d are counted", n, counted)
	}
}

// TestImportWhileRedisIsAway: a piece that Redis does not take is answered 503, and goes in
// once when it is back.
func TestImportWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRootKey()
	w.start("")
	const lines = 30_000
	var text strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		fmt.Fprintf(&text, "{\"event\":\"e\",\"user_id\":\"u%d\",\"ts\":%d}\n", i%97, start+int64(i))
	}
	f := w.sends(text.String(), "events")
	first := answered(t.Context(), func() imported { return f.piece(0) })
	if first.status != http.StatusOK {
		t.Fatalf("the first piece: %s", first.said)
	}
	if err := w.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if a := f.piece(first.NextOffset); a.status != http.StatusServiceUnavailable {
		t.Errorf("without Redis: %d %s", a.status, a.said)
	}
	if err := w.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := f.all(); a.Lines != lines || a.Taken != lines {
		t.Errorf("%s", a.said)
	}
	if rows := w.highest("SELECT COUNT(*) FROM events"); rows != lines {
		t.Errorf("%d events of %d", rows, lines)
	}
}

// TestUndoOfADeadImport kills a program that has written a piece and not noted it, while
// nothing stores, and undoes the import: not at once, not before all is stored, and then
// with what was not noted.
func TestUndoOfADeadImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRootKey()
	w.roles = "intake"
	const lines = 40_000
	var text strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		fmt.Fprintf(&text, "{\"event\":\"e\",\"user_id\":\"u%d\",\"n\":%d,\"ts\":%d}\n", i%97, i, start+int64(i))
	}
	p := w.start("import-note=kill,2")
	f := w.sends(text.String(), "events")
	first := answered(t.Context(), func() imported { // written in one go
		return f.call("POST", "/v1/imports/"+f.id+"/pieces?offset=0", f.text[:64<<10])
	})
	if first.status != http.StatusOK {
		t.Fatalf("the first piece: %s", first.said)
	}
	w.eventually("the second piece has no answer", func() bool {
		a := f.piece(first.NextOffset)
		if a.status != 0 && a.status != http.StatusServiceUnavailable {
			t.Fatalf("the second piece: %s", a.said)
		}
		return a.status == 0
	})
	w.exits(p, "the program has killed itself")
	w.start("")
	undo := func() imported { return f.call("POST", "/v1/imports/"+f.id+"/undo", "") }
	refused := func(why string) {
		t.Helper()
		a := answered(t.Context(), undo)
		if a.status != http.StatusConflict || !strings.Contains(a.said, why) {
			t.Fatalf("%d %s, want %s", a.status, a.said, why)
		}
	}
	refused("ask again in a minute")
	other := strings.Replace(f.text[first.NextOffset:first.NextOffset+1<<20], "u9", "U9", 1)
	instead := func() imported {
		return f.call("POST", fmt.Sprintf("/v1/imports/%s/pieces?offset=%d", f.id, first.NextOffset), other)
	}
	if a := answered(t.Context(), instead); a.status != http.StatusConflict || !strings.Contains(a.said, "another one now") {
		t.Errorf("another content in the place of what was sent: %d %s", a.status, a.said)
	}
	if _, err := w.db.ExecContext(t.Context(), "UPDATE imports SET updated = updated - INTERVAL 2 MINUTE"); err != nil {
		t.Fatal(err)
	}
	refused("are still to be stored")
	if a := f.until("GET", "/v1/imports/"+f.id, ""); a.StillToBeStored == 0 {
		t.Errorf("nothing is still to be stored: %s", a.said)
	}
	w.newest().kill()
	w.roles = ""
	w.start("")
	w.eventually("all is undone", func() bool { return undo().State == "undone" })
	if n, counted := w.highest("SELECT COUNT(*) FROM events"), w.highest("SELECT COALESCE(SUM(count), 0) FROM series_days WHERE name = 'e'"); n != 0 || counted != 0 {
		t.Errorf("%d events are left, %d are counted", n, counted)
	}
	if a := answered(t.Context(), func() imported { return f.piece(first.NextOffset) }); a.status != http.StatusConflict {
		t.Errorf("a piece of what is undone: %d %s", a.status, a.said)
	}
}

// TestImportWaitsForTheStore: while nothing stores, the logs get full, and pieces are
// answered 503; nothing is lost of what was answered 200.
func TestImportWaitsForTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withRootKey()
	w.roles = "intake"
	w.start("")
	const lines = 70_000
	var text strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		fmt.Fprintf(&text, "{\"event\":\"e\",\"user_id\":\"u%d\",\"filler\":\"%s\",\"ts\":%d}\n", i%97, strings.Repeat("x", 50), start+int64(i))
	}
	f := w.sends(text.String(), "events")
	for offset, pieces, late := int64(0), 0, 0; ; {
		a := f.call("POST", fmt.Sprintf("/v1/imports/%s/pieces?offset=%d", f.id, offset), f.text[offset:offset+64<<10])
		if a.status == http.StatusServiceUnavailable && strings.Contains(a.said, "the store is behind") {
			break
		}
		if a.status == http.StatusServiceUnavailable && late < 100 { // Redis is, on a busy machine
			late++
			pause(t.Context(), 100*time.Millisecond)
			continue
		}
		if a.status != http.StatusOK || pieces > 100 {
			t.Fatalf("piece %d: %d %s", pieces, a.status, a.said)
		}
		offset, pieces = a.NextOffset, pieces+1
	}
	w.newest().kill()
	w.roles = ""
	w.start("")
	if a := f.all(); a.Taken != lines {
		t.Errorf("%s", a.said)
	}
	if rows := w.highest("SELECT COUNT(*) FROM events"); rows != lines {
		t.Errorf("%d events of %d", rows, lines)
	}
}
