package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"sluice"
	"sluice/ingest"
	"sluice/lib/connlimit"
	"sluice/track/hook"
)

// Bounds of webhooks, beside those of all requests. They have memory and slots of their
// own: what is posted here, with a secret or without one, takes nothing from /v1/events.
const (
	hookPath = "/hooks/{provider}/{source}"

	maxHeldHookBytes = 64 << 20             // the bodies of all requests together
	maxHeldOfHook    = maxHeldHookBytes / 2 // those of one source: strangers may post to it
	maxHooked        = 32                   // requests that are verified and written at once

	// hookChunkBytes is how much of a body's events is encoded at a time. The events of one
	// body may be many times its size: each recipient has the metadata.
	hookChunkBytes  = 4 << 20
	keptChunkBytes  = 1 << 20
	complainOfHooks = 10 * time.Second // how often a refusal is logged, of each source
)

// Reasons of refused requests, and events, in the metrics.
const (
	hookUnauthentic = "authentication" // it is not the provider's
	hookStale       = "stale"          // its signed time does not hold
	hookTooLarge    = "too_large"
	hookUnreadable  = "unreadable"  // the body is nothing that the provider posts, or it broke off
	hookUnconfirmed = "unconfirmed" // SNS did not take the confirmation
	hookUnavailable = "unavailable" // it could not be checked, or nothing be written: the provider repeats
	hookDead        = "dead_letter" // an event whose time is out of bounds
)

// hooks are what the handler of webhooks has.
type hooks struct {
	*hook.Receiver // nil: there are no sources
	budget         *connlimit.Budget
	shares         *connlimit.Shares            // of budget, by network
	parts          map[string]*connlimit.Budget // what of it one source may have, by source
	slots          chan struct{}
	chunks         sync.Pool // *chunk

	mu         sync.Mutex
	complained map[string]time.Time // by source

	requests, refused, events *prometheus.CounterVec
	last                      *prometheus.GaugeVec
}

func newHooks(r *hook.Receiver) *hooks {
	b := connlimit.NewBudget(maxHeldHookBytes)
	h := &hooks{
		Receiver: r, parts: make(map[string]*connlimit.Budget), budget: b, shares: b.Shares(maxHeldOfStranger), slots: make(chan struct{}, maxHooked), complained: make(map[string]time.Time),
		chunks:   sync.Pool{New: func() any { return &chunk{} }},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_hook_requests_total", Help: "Requests of mail providers, by the entry of hooks."}, []string{"hook", "provider"}),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_hook_refused_total", Help: "Requests of mail providers that were refused, and events that became dead letters (dead_letter), by the entry of hooks."}, []string{"hook", "provider", "reason"}),
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_hook_events_total", Help: "Events of mail providers that were durably written, repeats included, by the entry of hooks."}, []string{"hook", "provider"}),
		last:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_hook_last_seconds", Help: "When a request of a mail provider was last accepted, in seconds since 1970; 0: none was."}, []string{"hook", "provider"}),
	}
	if r == nil {
		return h
	}
	for _, s := range r.Sources() { // also those from which nothing comes
		h.parts[s.Name] = connlimit.NewBudget(maxHeldOfHook)
		h.requests.WithLabelValues(s.Name, s.Provider.Name)
		h.events.WithLabelValues(s.Name, s.Provider.Name)
		h.refused.WithLabelValues(s.Name, s.Provider.Name, hookUnauthentic)
		h.last.WithLabelValues(s.Name, s.Provider.Name)
	}
	return h
}

// source is the one that a request is for, or nil.
func (h *hooks) source(r *http.Request) *hook.Source {
	if h.Receiver == nil {
		return nil
	}
	return h.Source(r.PathValue("provider"), r.PathValue("source"))
}

// hooked is the body of a good answer.
type hooked struct {
	Accepted int `json:"accepted"`
}

// hook is POST, GET and HEAD /hooks/{provider}/{source}. HEAD is what Netcore and Mandrill
// ask before they believe an address. A good answer is 200: Mailgun repeats after any other.
func (s *Server) hook(w http.ResponseWriter, r *http.Request) {
	source := s.hooks.source(r)
	switch {
	case source == nil:
		s.writeError(w, r, refusal(sluice.CodeNotFound, "there is no such hook; the setting hooks has them"))
		return
	case r.Method != http.MethodPost:
		s.writeJSON(w, http.StatusOK, hooked{})
		return
	}
	s.hooks.requests.WithLabelValues(source.Name, source.Provider.Name).Inc()
	done, err := s.takeHook(w, r, source)
	if err != nil {
		s.refuseHook(w, r, source, err)
		return
	}
	if done.RefusedItems > 0 {
		s.hooks.refused.WithLabelValues(source.Name, source.Provider.Name, hookDead).Add(float64(done.RefusedItems))
	}
	s.hooks.events.WithLabelValues(source.Name, source.Provider.Name).Add(float64(done.Items))
	s.hooks.last.WithLabelValues(source.Name, source.Provider.Name).Set(float64(s.clock.Now().Unix()))
	s.writeJSON(w, http.StatusOK, hooked{done.Items})
}

// takeHook verifies a request and has its events written.
func (s *Server) takeHook(w http.ResponseWriter, r *http.Request, source *hook.Source) (all ingest.Accepted, err error) {
	target := s.program.Services().Intake
	if target == nil {
		return all, errNotRunning
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return all, &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Encoding is not understood; a webhook has none: its signature is of the body as it is")}
	}
	request := hook.Request{URL: s.hooks.Address(source, r), Header: r.Header}
	if err := s.hooks.Early(r.Context(), source, &request); err != nil {
		return all, err
	}
	if r.ContentLength > int64(source.MaxBodyBytes()) {
		return all, errLargerThan(source.MaxBodyBytes())
	}
	r.Body = http.MaxBytesReader(w, r.Body, int64(source.MaxBodyBytes()))
	network := s.stranger(w, r)
	body, err := readBody(r, both{s.hooks.parts[source.Name], s.hooks.shares.Of(network)}, maxEventsBytes)
	defer func() { body.release() }()
	if err != nil {
		return all, err
	}
	connlimit.Busy(r)
	ctx := s.intake.waits.Context(s.clock.Now())
	if err := takeSlot(ctx, s.hooks.slots); err != nil {
		return all, err
	}
	defer func() { <-s.hooks.slots }()
	request.Body = body.bytes
	found, err := s.hooks.Receive(ctx, source, &request)
	if err != nil {
		return all, err
	}
	return s.writeHook(ctx, target, source, found.Events)
}

// writeHook writes events and returns when they are durable. Those without a time of
// their own are written apart: a repeat of them has to get the time of the first.
func (s *Server) writeHook(ctx context.Context, target *ingest.Intake, source *hook.Source, events []hook.Event) (all ingest.Accepted, err error) {
	request := ingest.Request{Sender: "hook:" + source.Name, Consent: source.Consent, Dead: "hook:" + source.Name}
	timed, untimed := events[:0], []hook.Event(nil)
	for i := range events {
		if events[i].Timed {
			timed = append(timed, events[i])
		} else {
			untimed = append(untimed, events[i])
		}
	}
	if err := s.hooks.write(ctx, target, source, request, timed, &all); err != nil || len(untimed) == 0 {
		return all, err
	}
	request.IdempotencyKey = hook.RepeatName(untimed)
	request.Body = request.IdempotencyKey // the name says what is in it
	return all, s.hooks.write(ctx, target, source, request, untimed, &all)
}

// chunk is the memory of events on their way.
type chunk struct {
	data  []byte
	ends  []int
	items []string
}

// write has events written, a chunk at a time, and adds what became of them to all.
func (h *hooks) write(ctx context.Context, target *ingest.Intake, source *hook.Source, request ingest.Request, events []hook.Event, all *ingest.Accepted) error {
	c := h.chunks.Get().(*chunk)
	defer func() {
		if clear(c.items); cap(c.data) <= keptChunkBytes {
			h.chunks.Put(c)
		}
	}()
	for len(events) > 0 {
		c.data, c.ends, c.items = c.data[:0], c.ends[:0], c.items[:0]
		for len(events) > 0 && len(c.data) < hookChunkBytes {
			c.data = events[0].AppendElement(c.data, source.Name)
			c.ends, events = append(c.ends, len(c.data)), events[1:]
		}
		text, start := unsafe.String(unsafe.SliceData(c.data), len(c.data)), 0
		for _, end := range c.ends {
			c.items = append(c.items, text[start:end])
			start = end
		}
		request.Items = c.items
		done, err := target.Accept(ctx, &request)
		if err != nil {
			return err
		}
		all.Items += done.Items
		all.RefusedItems += done.RefusedItems
	}
	return nil
}

// refuseHook answers with an error. A request that is not the provider's learns nothing of
// why; the log says it.
func (s *Server) refuseHook(w http.ResponseWriter, r *http.Request, source *hook.Source, err error) {
	reason, told := hookUnavailable, err
	switch e, known := errors.AsType[*sluice.Error](err); {
	case errors.Is(err, hook.ErrRefused):
		if reason = hookUnauthentic; errors.Is(err, hook.ErrStale) {
			reason = hookStale
		}
		told = refusal(sluice.CodeUnauthorized, "the request is not authenticated")
	case errors.Is(err, hook.ErrUnconfirmed):
		reason, told = hookUnconfirmed, refusal(sluice.CodeUnavailable, "the subscription could not be confirmed; ask again")
	case errors.Is(err, hook.ErrNoCertificate):
		told = refusal(sluice.CodeUnavailable, "the signature cannot be checked now; send it again")
	case errors.Is(err, hook.ErrTooLarge), known && e.Code == sluice.CodeTooLarge:
		reason = hookTooLarge
		if !known {
			told = refusal(sluice.CodeTooLarge, "the body has more events than one may have, %d", hook.MaxElements)
		}
	case errors.Is(err, hook.ErrUnreadable), known && e.Code == sluice.CodeInvalid:
		reason = hookUnreadable
		if !known {
			told = refusal(sluice.CodeInvalid, "the body is nothing that this provider posts")
		}
	default:
		told = s.notAccepted(w, err, "Send it again: a repeat does no harm")
	}
	s.hooks.refused.WithLabelValues(source.Name, source.Provider.Name, reason).Inc()
	s.complainOfHook(w, source, reason, err)
	s.writeError(w, r, told)
}

// complainOfHook logs why a request was refused, now and then: strangers may send
// thousands a second.
func (s *Server) complainOfHook(w http.ResponseWriter, source *hook.Source, reason string, err error) {
	now := s.clock.Now()
	s.hooks.mu.Lock()
	often := now.Sub(s.hooks.complained[source.Name]) < complainOfHooks
	if !often {
		s.hooks.complained[source.Name] = now
	}
	s.hooks.mu.Unlock()
	if !often {
		s.log.Warn("a request of a mail provider is refused", "id", idOf(w), "hook", source.Name, "provider", source.Provider.Name, "reason", reason, "error", err)
	}
}
