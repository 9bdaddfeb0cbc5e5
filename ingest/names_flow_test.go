package ingest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/user"
)

// When no more names of requests for mail can be remembered, mail with a new
// Idempotency-Key is refused, and nothing else. Events and counters with a new
// one are accepted, and so is mail that is known.
func TestNamesOfMailStopNoEvents(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		p.intake.Names = &flow.OnceNames{Redis: p.e.redis, Most: 4, Clock: sluice.SystemClock{}}
		request := func(name, item string) *ingest.Request {
			return &ingest.Request{Items: []string{item}, IdempotencyKey: name, Body: item}
		}
		for i := range 6 {
			_, _, err := p.intake.Once(b.Context(), request(fmt.Sprint("mail", i), "{}"))
			if e, refused := errors.AsType[*sluice.Error](err); refused != (i >= 4) || refused && e.Code != sluice.CodeUnavailable {
				b.Errorf("mail %d: %v", i, err)
			}
		}
		first, name, err := p.intake.Once(b.Context(), request("mail1", "{}"))
		if err != nil {
			b.Errorf("mail that is known: %v", err)
		}
		if seen, again, err := p.intake.Seen(b.Context(), request("mail1", "another")); err != nil || !seen.Equal(first) || again != name {
			b.Errorf("mail that was seen: %s %s, %v, want %s %s", seen, again, err, first, name)
		}
		for range 2 { // it is not remembered by that
			if seen, _, err := p.intake.Seen(b.Context(), request("mail9", "{}")); err != nil || !seen.IsZero() {
				b.Errorf("mail that was not seen: %s, %v", seen, err)
			}
		}
		event := fmt.Sprintf(`{"event":"opened","email":"ann@example.com","time":%q}`, time.Now().UTC().Format(time.RFC3339))
		if done, err := p.intake.Accept(b.Context(), request("event", event)); err != nil || done.Items != 1 {
			b.Errorf("an event: %+v, %v", done, err)
		}
		if done, err := p.intake.Count(b.Context(), request("counter", `{"name":"seen"}`)); err != nil || done.Items != 1 {
			b.Errorf("a counter: %+v, %v", done, err)
		}
	})
}

// Another body under an Idempotency-Key lets nobody in, also if its users are of other
// partitions than those of the first body.
func TestAnotherBodyWritesNoUpdates(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		entries := func() (n int) {
			for _, log := range p.e.logs {
				of, err := log.Entries(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				n += of
			}
			return n
		}
		update := func(body string, numbers ...int) error {
			var updates []user.Update
			for _, n := range numbers {
				updates = append(updates, user.Update{Op: user.OpEnter, Key: user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("user", n)}, Name: "j", TimeMillis: 1, ExistingOnly: true})
			}
			return p.intake.UpdateOnce(b.Context(), &ingest.Request{IdempotencyKey: "k", Sender: "s", Body: body}, updates)
		}
		if err := update("first", 1); err != nil {
			b.Fatal(err)
		}
		before := entries()
		for n := range 8 {
			if err := update("second", n, n+1); !errors.Is(err, ingest.ErrOtherBody) {
				b.Errorf("another body for users %d and %d: %v", n, n+1, err)
			}
		}
		if err := update("first", 1); err != nil {
			b.Errorf("a repeat: %v", err)
		}
		if after := entries(); after != before {
			b.Errorf("the logs have %d entries, want %d", after, before)
		}
	})
}
