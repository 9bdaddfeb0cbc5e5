package consent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/user"
)

// What is chosen is written in one step: states, proof, and the word of the suppression.
// A repeat of one click writes the states again, and no row of events; each choice on the
// page has one.
func TestChoose(t *testing.T) {
	s, clock := service(t)
	for name, x := range map[string]struct {
		choice  Choice
		stops   bool
		events  string // name and origin of each
		repeat  string
		updates string
	}{
		"a group is left":  {Choice{By: "link", Groups: map[string]bool{"g": false}}, true, "preferences_changed2", "", "8g*unsubscribed"},
		"a group is taken": {Choice{By: "page", Groups: map[string]bool{"h": false, "g": true}}, false, "preferences_changed2", "preferences_changed2", "8g*subscribed 8h*unsubscribed"},
		"all mail ends":    {Choice{By: "link", Mail: new(false)}, true, "preferences_changed2 unsubscribed2", "unsubscribed3", "10unsubscribed"},
		"mail comes again": {Choice{By: "page", Mail: new(true), Groups: map[string]bool{"g": false}}, false, "preferences_changed2 subscribed2", "preferences_changed2 subscribed2", "10subscribed 8g*unsubscribed"},
	} {
		w := &notes{}
		u := s.UnsubscriptionOf("ann@example.com", "g", aSend.ID(), "token")
		if x.choice.Stops() != x.stops || x.choice.Empty() {
			t.Errorf("%s: it only stops: %v", name, !x.stops)
		}
		ids := make(map[string]bool)
		for _, events := range []string{x.events, x.repeat} {
			clock.Move(time.Second)
			w.events, w.updates = nil, nil
			if err := s.Choose(t.Context(), w, u, &x.choice); err != nil {
				t.Fatal(err)
			}
			var got, updates []string
			for _, e := range w.events {
				if e.Origin == sluice.OriginOwn && ids[e.ID] {
					t.Errorf("%s: two rows have the id %s", name, e.ID)
				}
				ids[e.ID] = true
				got = append(got, e.Name+string('0'+rune(e.Origin)))
				if e.Email != "ann@example.com" || e.Message != aSend.Message || !strings.Contains(e.Properties, `"send":"`+aSend.ID()+`"`) || e.ID == "" || e.App != "" || (e.Kind == sluice.KindSystem) != (e.Name == EventChosen) {
					t.Errorf("%s: %+v", name, e)
				}
			}
			for _, up := range w.updates {
				op := "8"
				if up.Op == user.OpSubscribe {
					op = "10"
				}
				updates = append(updates, op+up.Name+up.App+up.Body)
				if up.Key != (user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}) || up.TimeMillis != clock.Now().UnixMilli() {
					t.Errorf("%s: %+v", name, up)
				}
			}
			if strings.Join(got, " ") != events || strings.Join(updates, " ") != x.updates {
				t.Errorf("%s: events %q, updates %q, want %q and %q", name, got, updates, events, x.updates)
			}
		}
	}
	if c := (Choice{}); !c.Empty() {
		t.Error("nothing is something")
	}
}

// stopper takes only what stops mail, as a file beside Redis does.
type stopper struct{ notes }

func (s *stopper) Record(ctx context.Context, key user.Key, events []sluice.Event, updates []user.Update, name string, ttl time.Duration) (bool, error) {
	for i := range updates {
		if updates[i].Body != "unsubscribed" {
			return false, errors.New("redis is away")
		}
	}
	return s.notes.Record(ctx, key, events, updates, name, ttl)
}

// Of a choice that cannot be written as a whole, what stops mail is kept, and its person is
// told that the rest is not.
func TestChooseKeepsWhatStopsMail(t *testing.T) {
	s, _ := service(t)
	u := s.UnsubscriptionOf("ann@example.com", "", aSend.ID(), "token")
	for want, c := range map[string]*Choice{
		"unsubscribed":     {By: ByPage, Mail: new(false), Groups: map[string]bool{"g": true}},
		"g h unsubscribed": {By: ByPage, Mail: new(true), Groups: map[string]bool{"g": false, "h": false, "i": true}},
		"":                 {By: ByPage, Groups: map[string]bool{"g": true}},
	} {
		w := &stopper{}
		if err := s.Choose(t.Context(), w, u, c); err == nil {
			t.Errorf("%q: no error", want)
		}
		var got []string
		for _, up := range w.updates {
			if up.Op == user.OpGroup {
				got = append(got, up.Name)
			}
		}
		if len(w.updates) > 0 {
			got = append(got, w.updates[0].Body)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
