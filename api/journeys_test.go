package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey"
	"sluice/journey/desk"
	"sluice/journey/env"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/servers"
	"sluice/user"
)

// deskOn is a desk on a database. Each user is inside step 1 of version 1 of journey 1.
func deskOn(db *sqlstore.Store) *desk.Desk {
	record := journey.Record{Step: 1, State: journey.StateInside, Version: 1, Due: 1_772_533_800, Entered: 1_772_442_000, Occurrence: 2}
	return &desk.Desk{
		Database: env.Database{Journeys: db, Templates: db, Segments: db}, Series: db, Clock: sluice.SystemClock{},
		Records: func(_ context.Context, _ user.ID, number int64) (r flow.Record, err error) {
			if number == 1 {
				copy(r[:], record.Append(nil))
			}
			return r, nil
		},
		Ways:  func(context.Context, user.ID, int64) ([]int, error) { return nil, nil },
		Sends: db, History: db, Partitions: 2,
		Page: func(_ context.Context, partition int, _, after int64, f func(int64, *flow.Record) bool) (int64, error) {
			if partition == 1 && after == 0 {
				f(1, (*flow.Record)(record.Append(nil)))
			}
			return 0, nil
		},
	}
}

// journeys is a server with one user and one template.
type journeys struct {
	*templates
	url, write, read string
}

func startJourneys(t *testing.T) *journeys {
	t.Helper()
	x := &journeys{templates: startTemplates(t)}
	x.url = strings.TrimSuffix(x.templates.url, templatesPath) + journeysPath
	_, text := addKey(t, x.store, "journeys:write", "journeys:read")
	x.write = "Bearer " + text
	_, text = addKey(t, x.store, "journeys:read")
	x.read = "Bearer " + text
	err := x.store.AddTemplate(t.Context(), mail.Template{ID: "welcome", Name: "w", Current: 1}, mail.TemplateVersion{Template: "welcome", Version: 1, Class: mail.ClassMarketing, Subject: "Hello", Text: "Hello", From: "us@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *journeys) ask(t *testing.T, method, path, body string, want int, to any) called {
	t.Helper()
	return callJSON(t, x.url+path, method, x.write, body, want, to)
}

// yaml sends a document as YAML.
func (x *journeys) yaml(t *testing.T, method, path, body string, want int) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, x.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", x.write)
	r.Header.Set("Content-Type", "application/yaml; charset=utf-8")
	client, _ := checked(t)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatalf("%s %s: %d %s, want %d, %v", method, path, res.StatusCode, text, want, err)
	}
	return string(text)
}

const (
	welcomeJourney = `{"id":"welcome","name":"Wel 🌍","entry":{"when":{"event":"signup"}},"steps":[{"id":"a-day","delay":{"for":"1d"},"next":"hello"},{"id":"hello","name":"Hi","message":{"template":"welcome"}}]}`
	welcomeAsYAML  = "id: welcome\nentry: {when: {event: signup}}\nsteps:\n  - {id: a-day, delay: {for: 2d}, next: hello}\n  - {id: hello, message: {template: welcome}}\n"
)

// A journey is made, changed by who has read it, published, paused, resumed, copied,
// stopped and archived.
func TestJourneys(t *testing.T) {
	x := startJourneys(t)
	var j journeyShown
	got := x.ask(t, "POST", "", welcomeJourney, 201, &j)
	if got.header.Get("Location") != journeysPath+"/welcome" || j.Status != "draft" || j.Name != "Wel 🌍" || j.Revision != 0 || j.Created == "" {
		t.Fatalf("%s", got.body)
	}
	x.ask(t, "POST", "", welcomeJourney, 400, nil)
	x.ask(t, "PUT", "/welcome", welcomeJourney, 400, nil)
	x.yaml(t, "PUT", "/welcome?revision=0", welcomeAsYAML, 200)
	x.ask(t, "PUT", "/welcome?revision=0", welcomeJourney, 409, nil)
	x.ask(t, "POST", "/welcome/publish?revision=0", "", 409, nil)
	var p journeyPublished
	if x.ask(t, "POST", "/welcome/publish?revision=1", "", 200, &p); p.Status != "live" || p.Version != 1 || p.Revision != 2 {
		t.Fatalf("%+v", p)
	}
	for _, step := range []struct {
		path, status string
		want         int
	}{
		{"resume", "live", 200}, {"archive", "", 409}, {"pause", "paused", 200}, {"pause", "paused", 200}, {"resume", "", 409}, {"resume?overdue=all", "", 400}, {"resume?overdue=skip", "live", 200},
		{"resume?overdue=all", "", 400}, // also where nothing is to be decided
		{"stop", "stopped", 200}, {"resume", "", 409}, {"publish", "", 409}, {"archive", "archived", 200},
	} {
		j.Status = ""
		if x.ask(t, "POST", "/welcome/"+step.path, "", step.want, &j); j.Status != step.status {
			t.Errorf("%s: it is %s, want %s", step.path, j.Status, step.status)
		}
	}
	if x.ask(t, "POST", "/welcome/copy", `{"id":"again","name":"Again"}`, 201, &j); j.ID != "again" || j.Name != "Again" || j.Status != "draft" {
		t.Errorf("%+v", j)
	}
	for query, want := range map[string]string{"": "again", "?archived=true": "again welcome", "?archived=true&limit=1": "again", "?after=again": ""} {
		var page struct{ Journeys []journeyShown }
		x.ask(t, "GET", query, "", 200, &page)
		ids := ""
		for _, j := range page.Journeys {
			ids += " " + j.ID
		}
		if strings.TrimSpace(ids) != want {
			t.Errorf("list%s: %s, want %s", query, ids, want)
		}
	}
	var full journeyInFull
	x.ask(t, "GET", "/welcome?version=1", "", 200, &full)
	if len(full.Versions) != 1 || len(full.Counts.Steps) != 2 || !strings.Contains(string(full.Document), `"for":"2d"`) {
		t.Errorf("%+v", full)
	}
	x.ask(t, "GET", "/welcome?version=2", "", 404, nil)
	x.ask(t, "GET", "/Welcome", "", 404, nil)
	callJSON(t, x.url+"/again/publish", "POST", x.read, "", 403, nil)
	callJSON(t, x.url, "GET", x.templates.write, "", 403, nil)
}

// A journey says at which steps people stay, how many, since when and why.
func TestJourneyStays(t *testing.T) {
	x := startJourneys(t)
	x.ask(t, "POST", "", welcomeJourney, 201, nil)
	x.ask(t, "POST", "/welcome/publish", "", 200, nil)
	var full journeyInFull
	if got := x.ask(t, "GET", "/welcome", "", 200, &full); full.Stays == nil || len(full.Stays.Steps) != 0 || full.Stays.More {
		t.Fatalf("%s", got.body)
	}
	_, err := x.store.AddTemplateVersion(t.Context(), "", mail.TemplateVersion{Template: "welcome", Class: mail.ClassMarketing, Subject: "Hello", Text: "Hello", From: "{{ sender }}"})
	if err != nil {
		t.Fatal(err)
	}
	full = journeyInFull{}
	got := x.ask(t, "GET", "/welcome", "", 200, &full)
	if full.Stays == nil || len(full.Stays.Steps) != 1 {
		t.Fatalf("%s", got.body)
	}
	if s := full.Stays.Steps[0]; s.Step != "hello" || s.People != 1 || s.Since != "2026-03-03T10:30:00.000Z" || s.Reason != desk.StayNoMail || !strings.Contains(s.Why, "no sender") {
		t.Errorf("%+v", s)
	}
}

// All that is wrong is said, with its place, by a check and by a publish.
func TestJourneyProblems(t *testing.T) {
	x := startJourneys(t)
	bad := strings.NewReplacer(`"template":"welcome"`, `"template":"missing"`, `"1d"`, `"a day"`).Replace(welcomeJourney)
	var c journeyChecked
	x.ask(t, "POST", "/welcome/validate", bad, 200, &c)
	if c.Valid || len(c.Problems) != 2 || c.Problems[0].Place != "steps.a-day.delay.for" || c.Problems[1].Place != "steps.hello.message.template" {
		t.Fatalf("%+v", c)
	}
	if text := x.yaml(t, "POST", "/welcome/validate", strings.Replace(welcomeAsYAML, "2d", "two", 1), 200); !strings.Contains(text, `"line":4`) {
		t.Error(text)
	}
	x.ask(t, "POST", "/welcome/validate", "", 404, nil)
	x.ask(t, "POST", "/other/validate", welcomeJourney, 400, nil)
	x.ask(t, "POST", "", bad, 201, nil)
	if x.ask(t, "POST", "/welcome/validate", "", 200, &c); c.Valid || len(c.Problems) != 2 {
		t.Fatalf("%+v", c)
	}
	var e struct{ Error errorDetail }
	x.ask(t, "POST", "/welcome/publish", "", 400, &e)
	if len(e.Error.Problems) != 2 || e.Error.Code != sluice.CodeInvalid || e.Error.Problems[0] != c.Problems[0] {
		t.Errorf("%+v", e)
	}
	x.ask(t, "PUT", "/welcome?revision=0", strings.Replace(welcomeJourney, `"steps"`, `"stepz"`, 1), 400, &e)
	if len(e.Error.Problems) != 1 || e.Error.Problems[0].Place != "stepz" {
		t.Errorf("%+v", e)
	}
	x.ask(t, "PUT", "/welcome?revision=0", welcomeJourney, 200, nil)
	if x.ask(t, "POST", "/welcome/validate", "", 200, &c); !c.Valid || len(c.Problems) != 0 {
		t.Errorf("%+v", c)
	}
	x.ask(t, "POST", "", strings.Repeat(" ", maxJourneyBody+1), 413, nil)
	for range parallelJourneys {
		x.s.journeys <- struct{}{}
	}
	x.ask(t, "POST", "/welcome/validate", "", 503, nil)
	x.ask(t, "POST", "/welcome/publish", "", 503, nil)
	for range parallelJourneys {
		<-x.s.journeys
	}
	x.ask(t, "POST", "/welcome/publish", "", 200, nil)
}

// Where a user is: with the names of the version that the user is in.
func TestUserJourneys(t *testing.T) {
	x := startJourneys(t)
	url := strings.TrimSuffix(x.url, journeysPath)
	x.ask(t, "POST", "", welcomeJourney, 201, nil)
	var of struct{ Journeys []placeShown }
	callJSON(t, url+"/v1/users/u-7/journeys", "GET", x.read, "", 200, &of)
	if len(of.Journeys) != 0 {
		t.Errorf("nobody has entered: %+v", of)
	}
	x.ask(t, "POST", "/welcome/publish", "", 200, nil)
	want := placeShown{Journey: "welcome", Name: "Wel 🌍", Status: "live", Version: 1, State: "inside", Step: "hello", StepName: "Hi", Due: "2026-03-03T10:30:00.000Z", Entered: "2026-03-02T09:00:00.000Z", Occurrence: 2,
		Path: []desk.PathStep{{Step: "a-day"}, {Step: "hello", Name: "Hi"}}}
	for _, path := range []string{"u-7/journeys", "u-7/journeys?by=external_id", user.ID{Partition: 1, Number: 1}.String() + "/journeys?by=braze_id"} {
		callJSON(t, url+"/v1/users/"+path, "GET", x.read, "", 200, &of)
		if len(of.Journeys) != 1 || !reflect.DeepEqual(of.Journeys[0], want) {
			t.Errorf("%s: %+v, want %+v", path, of, want)
		}
	}
	var at struct {
		People []personShown
		Next   string
	}
	x.ask(t, "GET", "/welcome/people?step=hello", "", 200, &at)
	if len(at.People) != 1 || at.People[0].User.ExternalID != "u-7" || at.People[0].Step != "hello" || at.Next != "" {
		t.Errorf("people: %+v", at)
	}
	x.ask(t, "GET", "/welcome/people?state=exited", "", 200, &at)
	if len(at.People) != 0 {
		t.Errorf("who has left: %+v", at)
	}
	x.ask(t, "GET", "/welcome/people?after=x", "", 400, nil)
	var why whyShown
	x.ask(t, "GET", "/welcome/why?user=u-7&step=hello", "", 200, &why)
	if why.Place == nil || why.Place.Step != "hello" || len(why.Says) == 0 || !strings.Contains(why.Says[0], "is at step hello") {
		t.Errorf("why: %+v", why)
	}
	for path, status := range map[string]int{"/welcome/why": 400, "/welcome/why?user=u-8": 404, "/welcome/why?user=u-7&step=x": 404, "/none/why?user=u-7": 404, "/welcome/why?user=u-7&by=email": 400} {
		x.ask(t, "GET", path, "", status, nil)
	}
	callJSON(t, url+"/v1/users/u-8/journeys", "GET", x.read, "", 404, nil)
	callJSON(t, url+"/v1/users/u-7/journeys?by=email", "GET", x.read, "", 400, nil)
	callJSON(t, url+"/v1/users/u-7/journeys", "GET", x.templates.read, "", 403, nil)
}

// intakeOf takes in what is posted, into a Redis of its own.
func intakeOf(t *testing.T) *ingest.Intake {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	var logs []*flow.Log
	for _, p := range flow.Partitions(2) {
		logs = append(logs, flow.NewLog(redis, p))
	}
	writer := flow.NewWriter(logs, "test", 1<<20)
	t.Cleanup(func() { _ = writer.Close(context.Background()) })
	return &ingest.Intake{Writer: writer, Redis: redis, Partitions: 2, Clock: sluice.SystemClock{}, Stats: &ingest.Stats{}}
}

// A call lets people into a live journey that takes calls; what is wrong with one entry
// is told with its index and costs none of the others.
func TestEnterJourney(t *testing.T) {
	sluice.WriteNewForms()
	x := startJourneys(t)
	const enter = `{"id":"%s","entry":{"when":%s},"steps":[{"id":"hello","message":{"template":"welcome"}}]}`
	for id, when := range map[string]string{"open": `[{"event":"signup"},{"api":true}]`, "shut": `{"event":"signup"}`, "draft": `{"api":true}`} {
		x.ask(t, "POST", "", fmt.Sprintf(enter, id, when), 201, nil)
		if id != "draft" {
			x.ask(t, "POST", "/"+id+"/publish", "", 200, nil)
		}
	}
	_, text := addKey(t, x.store, "journeys:enter")
	enters := func(path, body string, want int) (o outcome) {
		t.Helper()
		callJSON(t, x.url+path, "POST", "Bearer "+text, body, want, &o)
		return o
	}
	x.p.intake = intakeOf(t)
	enters("/shut/enter", `{"external_id":"a"}`, 409)
	enters("/draft/enter", `{"external_id":"a"}`, 409)
	enters("/none/enter", `{"external_id":"a"}`, 404)
	enters("/open/enter", `[`+strings.Repeat(`{"external_id":"a"},`, 1000)+`{"external_id":"a"}]`, 413)
	callJSON(t, x.url+"/open/enter", "POST", x.write, `{"external_id":"a"}`, 403, nil)
	long := `{"a":"` + strings.Repeat("x", desk.MaxContextBytes) + `"}`
	o := enters("/open/enter", `[{"external_id":"a","context":{"n":1}},{},{"external_id":"b","context":7},{"external_id":"c","context":`+long+`},{"external_id":"d","email":"d@example.com"},{"other":1},{"email":"no address"},{"user_alias":{"alias_label":"l","alias_name":"n"}},{"email":"e@example.com"}]`, 202)
	if o.Accepted != 3 || o.RefusedCount != 6 || len(o.Refused) != 6 || *o.Refused[0].Index != 1 || *o.Refused[5].Index != 6 {
		t.Errorf("%+v", o)
	}
	enters("/open/enter", `[{}]`, 400)
}
