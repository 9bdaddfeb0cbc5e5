package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/track/link"
	"sluice/user"
	"sluice/user/consent"
	"sluice/user/profile"
)

// pages is a server for the pages of mails, over a store and a writer that takes all.
type pages struct {
	*Server
	program *program
	service *consent.Service
	clock   *clocktest.Clock
	handler http.Handler
	path    string
	written atomic.Int64
}

func openPages(t *testing.T) *pages {
	t.Helper()
	db := openKeys(t)
	p := &pages{clock: clocktest.At(time.Unix(1_700_000_000, 0))}
	p.service = consent.New(nil, "", nil, p.clock)
	p.program = &program{keys: db, users: db, groups: db, forms: p.service}
	p.Server = New("", p.program, slog.New(slog.DiscardHandler), Options{Clock: p.clock})
	keys, err := link.NewKeys("https://t.example.com", []byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.Page(link.KindUnsubscribe, link.Place{Message: strings.Repeat("a", 32)}, link.Subject{Address: "ann@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	p.path, p.handler = strings.TrimPrefix(text, keys.Base()), p.SubscriptionPages(keys, p)
	return p
}

// Record implements consent.Writer.
func (p *pages) Record(context.Context, user.Key, []sluice.Event, []user.Update, string, time.Duration) (bool, error) {
	p.written.Add(1)
	return true, nil
}

// Away implements Choices: then no page waits until something is in force.
func (p *pages) Away() bool { return true }

// post sends a form to the page.
func (p *pages) post(t *testing.T, form string) *http.Response {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, p.path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", typeForm)
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result()
}

// get returns the page that a visitor sees.
func (p *pages) get(visitor context.Context, t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, httptest.NewRequestWithContext(visitor, http.MethodGet, p.path, nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Requests of the API that wait for Redis have all slots of the intake, and one click is
// carried out.
func TestChoicesHaveSlotsOfTheirOwn(t *testing.T) {
	p := openPages(t)
	for range cap(p.intake.slots) {
		p.intake.slots <- struct{}{}
	}
	if res := p.post(t, "List-Unsubscribe=One-Click"); res.StatusCode != http.StatusOK || p.written.Load() != 1 {
		t.Errorf("%d, %d written", res.StatusCode, p.written.Load())
	}
}

// A link may have mail come again, or change several things, so many times an hour. What
// stops one thing has no bound.
func TestChoicesAreBounded(t *testing.T) {
	p := openPages(t)
	const again, stop = "do=save&on=mail", "do=save&was=mail"
	taken := 0
	for ; taken < 1000 && p.post(t, again).StatusCode == http.StatusOK; taken++ {
	}
	if res := p.post(t, again); taken != 60 || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "60" || p.written.Load() != 60 {
		t.Errorf("%d taken, %d %v, %d written", taken, res.StatusCode, res.Header, p.written.Load())
	}
	for _, form := range []string{stop, "do=all", "List-Unsubscribe=One-Click"} {
		if res := p.post(t, form); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", form, res.StatusCode)
		}
	}
	p.clock.Move(time.Minute)
	if res := p.post(t, again); res.StatusCode != http.StatusOK {
		t.Errorf("a minute later: %d", res.StatusCode)
	}
}

// failingGroups is groups that cannot be read while it fails.
type failingGroups struct {
	store.GroupStore
	fails bool
}

func (f *failingGroups) Groups(ctx context.Context) ([]store.Group, error) {
	if f.fails {
		return nil, errors.New("the database is away")
	}
	return f.GroupStore.Groups(ctx)
}

// A visitor who leaves takes no groups from the others and is not logged. Groups that
// could not be read are asked for again a second later. Failures are logged once a second.
func TestGroupsOfPages(t *testing.T) {
	p := openPages(t)
	var log bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	if err := p.program.groups.PutGroup(t.Context(), store.Group{ID: "weekly", Name: "Weekly", Public: true, Order: 1}); err != nil {
		t.Fatal(err)
	}
	groups := &failingGroups{p.program.groups, true}
	p.program.groups = groups
	for range 3 {
		p.get(t.Context(), t)
		p.clock.Move(groupsAgain / 3)
	}
	if n := strings.Count(log.String(), "groups cannot be read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	groups.fails = false
	p.clock.Move(groupsAgain / 3)
	log.Reset()
	gone, leave := context.WithCancel(t.Context())
	leave()
	p.get(gone, t)
	if text := p.get(t.Context(), t); !strings.Contains(text, "Weekly") || log.Len() > 0 {
		t.Errorf("%s\n%s", &log, text)
	}
	p.program.users.(interface{ Close() error }).Close()
	for range 5 {
		p.get(t.Context(), t)
	}
	if n := strings.Count(log.String(), "chosen cannot be read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// The form of the page whose end is missing, or that is too long, changes nothing: who
// has changed one choice is not unsubscribed from all. Any other body is one click.
func TestAFormThatIsCutOff(t *testing.T) {
	p := openPages(t)
	for body, want := range map[string]int64{"do=save&was=ma": 0, "do=save": 0, "do=all": 1, "List-Unsub": 1, "": 1} {
		p.written.Store(0)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, p.path, io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.Header.Set("Content-Type", typeForm)
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, r)
		if ok := w.Code == http.StatusOK; p.written.Load() != want || ok != (want > 0) {
			t.Errorf("%q: %d, %d written, want %d", body, w.Code, p.written.Load(), want)
		}
	}
	p.written.Store(0)
	if res := p.post(t, "do=save&s="+strings.Repeat("x", maxOptInBytes)); res.StatusCode != http.StatusRequestEntityTooLarge || p.written.Load() != 0 {
		t.Errorf("a form that is too long: %d, %d written", res.StatusCode, p.written.Load())
	}
}

// Who has left as many groups as a profile can have is not offered to leave another one
// alone: it could not be kept.
func TestAGroupBeyondTheLast(t *testing.T) {
	p := openPages(t)
	var left []string
	for n := range profile.MaxGroups {
		left = append(left, fmt.Sprintf(`"g%03d":["unsubscribed",1]`, n))
	}
	for _, id := range []string{"g000", "weekly"} {
		if err := p.program.groups.PutGroup(t.Context(), store.Group{ID: id, Name: "Group " + id, Public: true, Order: 1}); err != nil {
			t.Fatal(err)
		}
	}
	db := p.program.users.(*sqlstore.Store)
	show := func(groups []string) string {
		t.Helper()
		id := user.ID{Number: 1}
		key := user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}, ID: id}
		e, err := db.Prepare(&store.Effect{Users: &user.Changes{AddAddress: []user.KeyRow{key},
			Put: []user.Row{{ID: id, Profile: `{"fields":{"email":"ann@example.com"},"groups":{` + strings.Join(groups, ",") + `}}`}}}})
		if err == nil {
			_, err = db.Apply(t.Context(), e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.get(t.Context(), t)
	}
	offered := func(text, group string) bool { return strings.Contains(text, `name="s" value="`+markOf(group)) }
	if text := show(left); !offered(text, "g000") || offered(text, "weekly") || !strings.Contains(text, "You have left so many others") {
		t.Errorf("all states are taken: %s", text)
	}
	if text := show(left[:profile.MaxGroups-1]); !offered(text, "g000") || !offered(text, "weekly") {
		t.Errorf("there is room for one: %s", text)
	}
}
