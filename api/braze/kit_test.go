package braze

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/tables"
	"sluice/user"
	"sluice/user/profile"
)

var now = time.Date(2026, 11, 21, 10, 20, 30, 123e6, time.UTC)

// written is a core that keeps what is written, beside a real store.
type written struct {
	updates []user.Update
	err     error
	late    error  // of Applied
	applied func() // called by Applied; nil: nothing is
	store   *sqlstore.Store

	drafts []mail.Draft
	once   map[string]string // by name: the content it came with first

	submitted error // of Submit; nil: it hands in

	refused string // an address from which nothing is sent

	cancelled []string // messages
	left      int      // how many sends of each are stopped
	open      int      // how many are on their way
	unstopped error    // of Cancel
	behind    bool     // the ledger is
}

func (w *written) Update(_ context.Context, updates []user.Update) error {
	for _, u := range updates {
		u.Body = strings.Clone(u.Body)
		w.updates = append(w.updates, u)
	}
	return w.err
}

func (w *written) UpdateOnce(ctx context.Context, name, content string, u user.Update) error {
	_, known := w.once[name]
	if _, _, same, err := w.Once(ctx, name, content); known || !same || err != nil {
		return err
	}
	return w.Update(ctx, []user.Update{u})
}

func (w *written) Cancel(_ context.Context, message string) (mail.Cancelled, error) {
	w.cancelled = append(w.cancelled, message)
	return mail.Cancelled{Cancelled: w.left, Open: w.open}, cmp.Or(w.unstopped, w.err)
}

func (w *written) Stored(context.Context, int64) (bool, error) { return !w.behind, w.err }

func (w *written) Submit(_ context.Context, _ string, drafts []mail.Draft) (ids []string, err error) {
	if w.submitted != nil {
		return nil, w.submitted
	}
	for _, d := range drafts {
		ids = append(ids, d.ID)
	}
	w.drafts = append(w.drafts, drafts...)
	return ids, w.err
}

func (w *written) Once(_ context.Context, name, content string) (time.Time, string, bool, error) {
	if w.once == nil {
		w.once = make(map[string]string)
	}
	if _, ok := w.once[name]; !ok {
		w.once[name] = content
	}
	return now, "once " + name, w.once[name] == content, w.err
}

func (w *written) Seen(_ context.Context, name string) (first time.Time, once string, err error) {
	if _, ok := w.once[name]; ok {
		first = now
	}
	return first, "once " + name, w.err
}

func (w *written) SenderRefused(_ context.Context, address string) error {
	if w.refused != "" && address == w.refused {
		return &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: "mail from " + address + " is not accepted"}
	}
	return nil
}

// stores are those of the core's database.
func (w *written) stores() Stores {
	return Stores{
		Users: w.store, Series: w.store, Segments: w.store, Templates: w.store, Sends: w.store, Schedules: w.store,
		SenderRefused: w.SenderRefused,
		Applied: func(context.Context, []user.Key) error {
			if w.applied != nil {
				w.applied()
			}
			return w.late
		},
	}
}

// newCore returns one with an empty database.
func newCore(t testing.TB) *written {
	t.Helper()
	return &written{store: tables.Open(t, sqlstore.Options{})}
}

// apply writes an effect to the core's database.
func (w *written) apply(t testing.TB, e store.Effect) {
	t.Helper()
	p, err := w.store.Prepare(&e)
	if err == nil {
		_, err = w.store.Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// put stores users, each with the names it is called by.
func (w *written) put(t testing.TB, number int64, p *profile.Profile, updated int64, addresses ...user.Key) user.ID {
	t.Helper()
	id := user.ID{Partition: 1, Number: number}
	u := &user.Changes{Put: []user.Row{{ID: id, UpdatedMillis: updated, Profile: string(p.Append(nil))}}}
	if p.ExternalID != "" {
		u.AddKeys = append(u.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: p.ExternalID}, ID: id})
	}
	for _, a := range p.Aliases {
		u.AddKeys = append(u.AddKeys, user.KeyRow{Key: user.AliasKey(a.Label, a.Name), ID: id})
	}
	for _, a := range addresses {
		u.AddAddress = append(u.AddAddress, user.KeyRow{Key: a, ID: id})
	}
	w.apply(t, store.Effect{Users: u})
	return id
}

// call calls an endpoint with a body or a query. Of an error it returns what the caller is
// told, and what the log is.
func (w *written) call(t *testing.T, path, body string) (int, string) {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	if rest, ok := strings.CutPrefix(path, "/transactional/v1/campaigns/"); ok {
		id, _, _ = strings.Cut(rest, "/")
		path = "/transactional/v1/campaigns/{" + CampaignID + "}/send"
	}
	for _, e := range Endpoints() {
		if e.Path != path {
			continue
		}
		r, err := e.Answer(t.Context(), &Request{Body: body, Query: values, ID: id, Now: now, Core: w, Log: slog.New(slog.DiscardHandler), Stores: w.stores()})
		if err != nil {
			text := err.Error()
			if told, ok := errors.AsType[*sluice.Error](err); ok && !strings.HasPrefix(text, told.Error()) {
				text = told.Error() + "\n" + text
			}
			return 0, text
		}
		if !json.Valid(r.Body) {
			t.Fatalf("%s %.200s: %s is no JSON", path, body, r.Body)
		}
		return r.Status, string(r.Body)
	}
	t.Fatalf("no endpoint %s", path)
	return 0, ""
}

// took returns what was written since it was last asked, a line each.
func (w *written) took() string {
	var lines []string
	for _, u := range w.updates {
		only := ""
		if u.ExistingOnly {
			only = " only"
		}
		at := ""
		if u.TimeMillis != now.UnixMilli() {
			at = " " + profile.TimeText(u.TimeMillis)
		}
		if u.Address.Name != "" {
			only += fmt.Sprintf(" or %d:%s", u.Address.Kind, u.Address.Name)
		}
		lines = append(lines, fmt.Sprintf("%d %d:%s%s%s %s|%s|%s", u.Op, u.Key.Kind, u.Key.Name, only, at, u.Name, u.App, u.Body))
	}
	w.updates = nil
	return strings.Join(lines, "\n")
}

// nowhere is a core that forgets.
type nowhere struct{ Core }

func (nowhere) Update(context.Context, []user.Update) error { return nil }
