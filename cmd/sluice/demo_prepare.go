package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice"
	"sluice/api"
	"sluice/api/braze"
	"sluice/docs/journeys"
	"sluice/engine"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/lib/key"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/store"
)

// Bounds of what the demo asks the program.
const (
	demoTrackAtMost = 75 // purchases a call, Braze's bound
	demoCallTimeout = 30 * time.Second
)

// demoJourney is a journey of the demo.
type demoJourney struct {
	id     string
	begins string   // when, of one with a schedule
	goal   string   // its main conversion
	waits  []string // steps at which people wait for time to pass, or for something to happen
}

// prepare makes up the people, the templates, the journeys and a key.
func (d *demo) prepare(ctx context.Context, p *progress) error {
	defer p.end()
	err := d.await(ctx, func(api.Stats) bool { return d.program.Ready() == nil })
	if err == nil {
		err = d.makeKey(ctx)
	}
	if err == nil {
		err = d.makePeople(ctx, p)
	}
	if err == nil {
		err = d.putTemplates(ctx)
	}
	if err == nil {
		err = d.publishJourneys(ctx, time.Now())
	}
	return err
}

// keyFile has the key with which the demo calls the API, for commands beside it too.
func (d *demo) keyFile() string { return filepath.Join(d.cfg.Data, "key") }

func (d *demo) makeKey(ctx context.Context) error {
	id, text := key.New()
	hash := key.HashOf(text)
	var permissions []string
	for _, p := range []key.Permission{key.UsersTrack, key.MailboxesRead, key.MetricsRead, key.LedgerRead, key.JourneysRead, key.UsersExportIDs} {
		permissions = append(permissions, string(p))
	}
	d.key = text
	err := d.program.Services().Keys.AddKey(ctx, store.APIKey{ID: id, Name: "demo", Hash: hash[:], CreatedMillis: time.Now().UnixMilli(), Permissions: permissions})
	if err == nil {
		err = os.WriteFile(d.keyFile(), []byte(text+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("make the demo's key: %w", err)
	}
	return nil
}

// makePeople imports the people, as `sluice import users` does, and what the dormant ones
// once ordered; it returns when all are stored.
func (d *demo) makePeople(ctx context.Context, p *progress) error {
	all := d.shop.people
	users := &ingest.Import{Source: "import:demo-users", Update: braze.UserLine}
	err := d.importLines(ctx, users, all, func(person int) string { return d.shop.profileLine(person) }, func(n int64) {
		p.at(float64(n)/float64(all), fmt.Sprintf("makes up %s of %s people", grouped(n), grouped(int64(all))))
	})
	if err != nil {
		return err
	}
	now, ordered := time.Now(), int64(0)
	orders := &ingest.Import{Source: "import:demo-orders", Counts: true, Options: ingest.EventOptions{App: "demo", Dedupe: "event_id", Optional: true}}
	err = d.importLines(ctx, orders, all, func(person int) string {
		if !isDormant(person) {
			return ""
		}
		ordered++
		return d.shop.historyLine(person, now)
	}, func(int64) { p.say("makes up what they once ordered") })
	if err != nil {
		return err
	}
	// The lag is looked at once in a while, and may be that of before the import.
	return d.await(ctx, func(s api.Stats) bool {
		p.say("stores people and orders")
		return s.Names[sluice.KindCustom.String()] >= ordered && drained(s)
	})
}

// importLines imports a line for each person; empty: none.
func (d *demo) importLines(ctx context.Context, im *ingest.Import, people int, line func(person int) string, done func(lines int64)) error {
	im.Logs, im.Kept, im.Clock = engine.LogsOf(d.program.Redis(), d.cfg), engine.Retention(d.cfg), sluice.SystemClock{}
	im.Reject = func(l store.Line, why error) error { return fmt.Errorf("line %d, %s: %w", l.Number, l.Text, why) }
	person, number := 0, int64(0)
	_, err := im.Run(ctx, func() (store.Line, error) {
		for ; person < people; person++ {
			if text := line(person); text != "" {
				person++
				number++
				return store.Line{Number: number, Text: text}, nil
			}
		}
		return store.Line{}, io.EOF
	}, func(i ingest.Imported) { done(i.Lines) })
	if err != nil {
		return fmt.Errorf("%s: %w", im.Source, err)
	}
	return nil
}

func (d *demo) putTemplates(ctx context.Context) error {
	return eachExample("*.mail", func(file, text string) error {
		name, v, err := template.ParseFile(text)
		if err != nil {
			return fmt.Errorf("%s, %w", file, err)
		}
		now := time.Now().UnixMilli()
		v.CreatedMillis = now
		return d.program.Services().Templates.AddTemplate(ctx, mail.Template{ID: v.Template, Name: name, Current: 1, Latest: 1, CreatedMillis: now, UpdatedMillis: now}, v)
	})
}

// publishJourneys publishes the examples, made faster.
func (d *demo) publishJourneys(ctx context.Context, now time.Time) error {
	desks := d.program.Services().Journeys
	err := eachExample("*.yaml", func(file, text string) error {
		doc, err := plan.ParseYAML(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := quicken(doc, now); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if text, err = doc.Text(); err != nil {
			return err
		}
		j, err := desks.Create(ctx, desk.Written{Text: text})
		if err == nil {
			_, err = desks.Publish(ctx, j.ID, j.Revision)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		made := demoJourney{id: doc.ID, begins: doc.Entry.When[0].At, goal: doc.Conversions[0].Name}
		for i := range doc.Steps {
			if s := &doc.Steps[i]; s.Delay != nil || s.WaitFor != nil {
				made.waits = append(made.waits, s.ID)
			}
		}
		d.journeys = append(d.journeys, made)
		return nil
	})
	// The order in which a customer meets them.
	for i := range d.journeys {
		if d.journeys[i].id == "welcome" {
			d.journeys[0], d.journeys[i] = d.journeys[i], d.journeys[0]
		}
	}
	return err
}

// eachExample calls f for the examples whose name is like a pattern.
func eachExample(pattern string, f func(file, text string) error) error {
	names, err := fs.Glob(journeys.Files, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := journeys.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := f(name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// track tells the program what was bought, by the call that shops make.
func (d *demo) track() error {
	for {
		bought := d.shop.purchases(demoTrackAtMost)
		if len(bought) == 0 {
			return nil
		}
		body, err := json.Marshal(map[string]any{"purchases": bought})
		if err != nil {
			return err
		}
		// One that has begun is finished: cut off, nobody knew whether it counts.
		ctx, cancel := context.WithTimeout(context.Background(), demoCallTimeout)
		err = d.post(ctx, "/users/track", body)
		cancel()
		if err != nil {
			return err
		}
	}
}

func (d *demo) post(ctx context.Context, path string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.program.Address()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST %s: %s: %.200s", path, answer.Status, strings.TrimSpace(string(text)))
	}
	return err
}
