package ingest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
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
		if _, _, err := p.intake.Once(b.Context(), request("mail1", "{}")); err != nil {
			b.Errorf("mail that is known: %v", err)
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
