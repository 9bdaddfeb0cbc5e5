package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/segment"
)

// segments is a server with thirty users in three partitions; every third has
// the plan gold.
type segments struct {
	url   string
	write string // authorization to write and to read
	read  string
	p     *program
	store *sqlstore.Store
}

func startSegments(t *testing.T) *segments {
	t.Helper()
	_, url, p, _ := startBraze(t, Options{})
	s := &segments{url: url + segmentsPath, p: p, store: p.keys.(*sqlstore.Store)}
	p.scanner = segment.NewScanner(s.store, 3, sluice.SystemClock{})
	_, text := addKey(t, s.store, "segments:write", "segments:read")
	s.write = "Bearer " + text
	_, text = addKey(t, s.store, "segments:read")
	s.read = "Bearer " + text
	u := &user.Changes{}
	for i := range 30 {
		id := user.ID{Partition: i % 3, Number: int64(i/3) + 1}
		person := &profile.Profile{ExternalID: fmt.Sprint("u-", i)}
		person.SetAttributes(fmt.Sprintf(`{"plan":"%s","score":%d}`, []string{"free", "gold", "free"}[i/3%3], i), 0)
		u.Put = append(u.Put, user.Row{ID: id, UpdatedMillis: 1, Profile: string(person.Append(nil))})
		u.AddKeys = append(u.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: person.ExternalID}, ID: id})
	}
	u.Put = append(u.Put, user.Row{ID: user.ID{Number: 99}, UpdatedMillis: 1, MergedInto: user.ID{Number: 1}})
	e, err := s.store.Prepare(&store.Effect{Users: u})
	if err == nil {
		_, err = s.store.Apply(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask is callJSON with the key that may write.
func (s *segments) ask(t *testing.T, method, path, body string, want int, to any) called {
	t.Helper()
	return callJSON(t, s.url+path, method, s.write, body, want, to)
}

const goldRule = `{"attribute":"plan","is":"equals","value":"gold"}`

// add makes a segment and returns its path.
func (s *segments) add(t *testing.T, name, rule string) string {
	t.Helper()
	var g segmentShown
	got := s.ask(t, "POST", "", fmt.Sprintf(`{"rule": %s, "name": %q}`, rule, name), 201, &g)
	if got.header.Get("Location") != segmentsPath+"/"+g.ID || g.Name != name || g.Created == "" || g.Created != g.Updated || g.Archived != "" {
		t.Fatalf("%s", got.body)
	}
	return "/" + g.ID
}

// A segment is made, shown, changed, archived and brought back.
func TestSegments(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "gold ü", goldRule)
	var g segmentShown
	s.ask(t, "GET", path, "", 200, &g)
	if string(g.Rule) != goldRule || g.Name != "gold ü" {
		t.Errorf("%+v", g)
	}
	s.ask(t, "PUT", path, `{"name":"free","rule":{"not":`+goldRule+`}}`, 200, &g)
	if string(g.Rule) != `{"not":`+goldRule+`}` || g.Name != "free" || g.Updated < g.Created {
		t.Errorf("%+v", g)
	}
	s.ask(t, "DELETE", path, "", 204, nil)
	s.ask(t, "DELETE", path, "", 204, nil)
	s.ask(t, "GET", path, "", 200, &g)
	if g.Archived == "" {
		t.Error("it is not archived")
	}
	names := func(query string) string {
		var list struct {
			Segments []segmentShown
			Next     string
		}
		s.ask(t, "GET", query, "", 200, &list)
		var all []string
		for _, g := range list.Segments {
			all = append(all, g.Name)
		}
		if list.Next != "" {
			all = append(all, "next="+list.Next)
		}
		return strings.Join(all, " ")
	}
	a, b := "a", "b"
	first, other := s.add(t, a, goldRule), s.add(t, b, goldRule)
	if other < first { // both were made in one millisecond
		a, b, first = b, a, other
	}
	both := a + " " + b
	for query, want := range map[string]string{"": both, "?archived=true": "free " + both, "?limit=1": a + " next=" + first[1:], "?after=" + first[1:]: b, "?archived=false&limit=2": both} {
		if got := names(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.ask(t, "PUT", path, `{"name":"free","rule":`+goldRule+`}`, 200, nil)
	if got := names(""); got != "free "+both {
		t.Errorf("brought back: %s", got)
	}
}

// What is no segment is refused, and the message says where it is wrong.
func TestSegmentsRefused(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "taken", goldRule)
	other := s.add(t, "other", goldRule)
	none := "/" + sluice.NewUUID(sluice.SystemClock{}.Now())
	for _, x := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "", `{"name":"x","rule":{"and":[` + goldRule + `,{"attribute":5,"is":"exists"}]}}`, 400, `rule.and[1].attribute: want a name, got a number`},
		{"POST", "", `{"name":"x","rule":5}`, 400, "rule: want a condition"},
		{"POST", "", `{"name":"x"}`, 400, "rule: want a condition, there is none"},
		{"POST", "", `{"name":"taken","rule":` + goldRule + `}`, 400, "another segment is called"},
		{"PUT", other, `{"name":"taken","rule":` + goldRule + `}`, 400, "another segment is called"},
		{"POST", "", `{"name":"` + strings.Repeat("ü", 256) + `","rule":` + goldRule + `}`, 400, "1 to 255 characters"},
		{"POST", "", `{"name":" x","rule":` + goldRule + `}`, 400, "name: want"}, {"POST", "", `{"name":"x\u0000","rule":` + goldRule + `}`, 400, "name: want"},
		{"POST", "", `{"name":7,"rule":` + goldRule + `}`, 400, "name: want"}, {"POST", "", `{"rule":` + goldRule + `}`, 400, "name: want"},
		{"POST", "", `{"name":"x","name":"y","rule":` + goldRule + `}`, 400, "there twice"}, {"POST", "", `{"name":"x","role":{}}`, 400, "is not known"},
		{"POST", "", `[]`, 400, "no JSON object"}, {"POST", "", `{`, 400, "no JSON object"}, {"POST", "", ``, 400, "no JSON object"},
		{"POST", "?x=1", `{}`, 400, "want none"},
		{"POST", "", `{"name":"x","rule":{"attribute":"` + strings.Repeat("x", 80<<10) + `"}}`, 413, "larger than"},
		{"PUT", none, `{"name":"n","rule":` + goldRule + `}`, 404, "no segment"}, {"GET", none, "", 404, "no segment"}, {"DELETE", none, "", 404, "no segment"},
		{"GET", none + "/count", "", 404, "no segment"}, {"GET", "/X", "", 404, "lower case"}, {"GET", "/" + strings.Repeat("-", 36) + "/members", "", 404, "no segment"},
		{"GET", "?limit=101", "", 400, "want 1 to 100"}, {"GET", "?limit=+5", "", 400, "want 1 to 100"}, {"GET", "?after=x", "", 400, "want what an answer had"},
		{"GET", "?archived=yes", "", 400, "true or false"}, {"GET", path + "/count?x=1", "", 400, "is not known"},
		{"GET", path + "/members?limit=1001", "", 400, "want 1 to 1000"}, {"GET", path + "/members?after=000000000000000000000000", "", 400, "want what an answer had"},
		{"GET", path + "/explain", "", 400, "either external_id or braze_id"}, {"GET", path + "/explain?external_id=a&braze_id=b", "", 400, "either"},
		{"GET", path + "/explain?external_id=nobody", "", 404, "no such user"}, {"GET", path + "/explain?external_id=%00", "", 404, "no such user"},
		{"GET", path + "/explain?braze_id=u-1", "", 404, "no such user"},
		{"GET", path + "/explain?braze_id=" + user.ID{Number: 99}.String(), "", 404, "was merged into " + user.ID{Number: 1}.String()},
	} {
		var body struct{ Error struct{ Message string } }
		s.ask(t, x.method, x.path, x.body, x.status, &body)
		if !strings.Contains(body.Error.Message, x.says) {
			t.Errorf("%s %s %.80s: %s, want %s", x.method, x.path, x.body, body.Error.Message, x.says)
		}
	}
}

// Who is in a segment is counted, listed page by page, and explained.
func TestWhoIsInASegment(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "gold", goldRule)
	var count struct{ Count, Users int64 }
	s.ask(t, "GET", path+"/count", "", 200, &count)
	if count.Count != 9 || count.Users != 30 {
		t.Errorf("%+v", count)
	}
	var seen []string
	for after := "?limit=2"; after != ""; {
		var page struct {
			Members []userShown
			Next    string
		}
		s.ask(t, "GET", path+"/members"+after, "", 200, &page)
		if len(page.Members) > 2 || len(seen) > 9 {
			t.Fatalf("%d members, then %+v", len(seen), page)
		}
		for _, m := range page.Members {
			id, _ := user.ParseID(m.BrazeID)
			if want := fmt.Sprint("u-", (id.Number-1)*3+int64(id.Partition)); m.ExternalID != want {
				t.Errorf("%+v, want %s", m, want)
			}
			seen = append(seen, m.ExternalID)
		}
		if after = ""; page.Next != "" {
			after = "?limit=2&after=" + page.Next
		}
	}
	if got := strings.Join(seen, " "); got != "u-3 u-12 u-21 u-4 u-13 u-22 u-5 u-14 u-23" {
		t.Errorf("members: %s", got)
	}
	for query, holds := range map[string]bool{"external_id=u-4": true, "external_id=u-6": false, "braze_id=" + user.ID{Partition: 1, Number: 2}.String(): true} {
		var e struct {
			User    userShown
			Holds   bool
			Finding struct {
				Condition, Found string
				Holds            bool
			}
		}
		s.ask(t, "GET", path+"/explain?"+query, "", 200, &e)
		if e.Holds != holds || e.Finding.Holds != holds || e.Finding.Condition != goldRule || e.Finding.Found != map[bool]string{true: `"gold"`, false: `"free"`}[holds] || e.User.ExternalID == "" {
			t.Errorf("%s: %+v", query, e)
		}
	}
	s.ask(t, "DELETE", path, "", 204, nil)
	s.ask(t, "GET", path+"/count", "", 200, &count) // archived ones can still be asked
}

// Reading needs one permission, changing another.
func TestSegmentPermissions(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "gold", goldRule)
	_, text := addKey(t, s.store, "segments:write", "users.track")
	body := `{"name":"x","rule":` + goldRule + `}`
	for _, x := range []struct {
		method, path  string
		write, status int
	}{{"GET", "", 403, 200}, {"GET", path, 403, 200}, {"GET", path + "/count", 403, 200}, {"GET", path + "/members", 403, 200}, {"GET", path + "/explain?external_id=u-1", 403, 200},
		{"POST", "", 201, 403}, {"PUT", path, 400, 403}, {"DELETE", path, 204, 403}} {
		for authorization, want := range map[string]int{"": 401, "Bearer " + text: x.write, s.read: x.status} {
			if got := callBraze(t, s.url+x.path, x.method, authorization, body); got.status != want {
				t.Errorf("%s %s as %.12s: %d %s, want %d", x.method, x.path, authorization, got.status, got.body, want)
			}
		}
	}
}

// heldUsers says when a read begins and when it is given up.
type heldUsers struct {
	user.Store
	began, ended chan struct{}
}

func (h *heldUsers) EachProfile(ctx context.Context, _ int, _ int64, _ int, _ func(int64, string) bool) error {
	h.began <- struct{}{}
	<-ctx.Done()
	h.ended <- struct{}{}
	return ctx.Err()
}

// Two readings of all users are possible at a time, and a third is rejected. A
// client that hangs up ends its own.
func TestSegmentScansAreBounded(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "gold", goldRule)
	held := &heldUsers{Store: s.store, began: make(chan struct{}), ended: make(chan struct{})}
	s.p.scanner = segment.NewScanner(held, 1, sluice.SystemClock{})
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	gone := make(chan error, segment.MaxScans)
	for range segment.MaxScans {
		r, err := http.NewRequestWithContext(ctx, "GET", s.url+path+"/count", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", s.read)
		go func() {
			res, err := http.DefaultClient.Do(r)
			if err == nil {
				err = res.Body.Close()
			}
			gone <- err
		}()
		<-held.began
	}
	for _, what := range []string{"/count", "/members"} {
		if got := s.ask(t, "GET", path+what, "", 503, nil); got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	hangUp()
	for range segment.MaxScans {
		<-held.ended
		if err := <-gone; err == nil {
			t.Error("an answer to nobody")
		}
	}
}

// While the program does not run, it says so.
func TestSegmentsOfNoProgram(t *testing.T) {
	s := startSegments(t)
	path := s.add(t, "gold", goldRule)
	s.p.stopped = true
	s.ask(t, "GET", path+"/count", "", 503, nil)
	s.ask(t, "GET", path+"/members", "", 503, nil)
	s.ask(t, "GET", path, "", 503, nil)
}
