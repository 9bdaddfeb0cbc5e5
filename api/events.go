package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/connlimit"
	"sluice/lib/deadline"
	"sluice/lib/key"
)

// Bounds of taking in events.
const (
	// maxTakenIn is how many requests are parsed and written at once; others
	// wait for slotWait, with their bodies in memory. It is not held while a
	// body arrives: slow clients keep nobody out.
	maxTakenIn = 512
	slotWait   = time.Second

	// acceptTimeout is how long a request waits to be written, and up to
	// deadlineStep less. With the time that its body may take it is below
	// answerWriteTimeout.
	acceptTimeout = 25 * time.Second
	deadlineStep  = time.Second

	// complainEvery bounds how often a failure to write is logged.
	complainEvery = time.Second
)

// intake is what the handlers of events share.
type intake struct {
	budget   *connlimit.Budget
	shares   *connlimit.Shares // of budget, by the id of a key or account
	unpacker *unpacker
	slots    chan struct{}

	mu         sync.Mutex
	complained time.Time

	waits    deadline.Shared
	accepted prometheus.Counter
	refused  prometheus.Counter
	answers  *prometheus.CounterVec
	answered prometheus.Counter // of answers, those by 202
	seconds  prometheus.Histogram
}

func newIntake() *intake {
	b := connlimit.NewBudget(maxHeldBytes)
	in := &intake{
		budget: b, shares: b.Shares(maxHeldOfSender), unpacker: newUnpacker(), slots: make(chan struct{}, maxTakenIn), waits: deadline.Shared{Timeout: acceptTimeout, Step: deadlineStep},
		accepted: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_http_accepted_items_total", Help: "Items of requests that were durably written."}),
		refused:  prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_http_refused_items_total", Help: "Items of requests that were refused: invalid events, counters, messages, or objects of calls of Braze's API."}),
		answers:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_http_events_requests_total", Help: "Requests with events, counters or messages, and posted calls of Braze's API, by the status of their answers."}, []string{"status"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_http_accept_seconds", Help: "How long accepted requests with events, counters or messages took, from the end of their head to the answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}}),
	}
	in.answered = in.answers.WithLabelValues(strconv.Itoa(http.StatusAccepted))
	return in
}

// outcome is what became of a request's items: the body of a 202.
//
//	{"accepted": 998, "refused_count": 2, "refused": [{"code": "invalid", "message": "...", "index": 3}, ...]}
type outcome struct {
	Accepted     int           `json:"accepted"`
	RefusedCount int           `json:"refused_count"`
	Refused      []errorDetail `json:"refused"` // at most 100
}

// events is POST /v1/events (INTERFACES.md, section 6).
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	s.posted(w, r, key.EventsWrite, (*ingest.Intake).Accept)
}

// counters is POST /v1/counters.
func (s *Server) counters(w http.ResponseWriter, r *http.Request) {
	s.posted(w, r, key.CountersWrite, (*ingest.Intake).Count)
}

// accept has a request's items written.
type accept func(*ingest.Intake, context.Context, *ingest.Request) (ingest.Accepted, error)

// posted answers a request with items, for which a permission is needed.
func (s *Server) posted(w http.ResponseWriter, r *http.Request, p key.Permission, write accept) {
	started := s.clock.Now()
	done, err := s.takeIn(w, r, p, write)
	in := s.intake
	if done.RefusedItems > 0 {
		in.refused.Add(float64(done.RefusedItems))
	}
	switch {
	case err != nil:
		s.writeError(w, r, err)
	case done.Items == 0 && done.RefusedItems > 0:
		s.writeJSON(w, http.StatusBadRequest, errorBody{Error: detail(&done.Refused[0], idOf(w)), outcome: outcomeOf(&done)})
	default:
		in.accepted.Add(float64(done.Items))
		if done.RefusedItems > 0 {
			s.writeJSON(w, http.StatusAccepted, outcomeOf(&done))
		} else {
			s.writeAccepted(w, done.Items)
		}
		in.seconds.Observe(s.clock.Now().Sub(started).Seconds())
	}
	in.answeredWith(w)
}

// answeredWith counts an answer by its status.
func (in *intake) answeredWith(w http.ResponseWriter) {
	switch a, ok := w.(*answer); {
	case !ok:
	case a.status == http.StatusAccepted:
		in.answered.Inc()
	default:
		in.answers.WithLabelValues(strconv.Itoa(a.status)).Inc()
	}
}

// writeAccepted writes what outcomeOf would, where nothing was refused: nearly
// every answer, and of single events a part of the cost that can be measured.
func (s *Server) writeAccepted(w http.ResponseWriter, items int) {
	w.Header()["Content-Type"] = headerJSON
	w.WriteHeader(http.StatusAccepted)
	var room [64]byte
	text := strconv.AppendInt(append(room[:0], `{"accepted":`...), int64(items), 10)
	s.write(w, append(text, ",\"refused_count\":0,\"refused\":[]}\n"...))
}

func outcomeOf(a *ingest.Accepted) *outcome {
	o := &outcome{Accepted: a.Items, RefusedCount: a.RefusedItems, Refused: make([]errorDetail, len(a.Refused))}
	for i := range a.Refused {
		o.Refused[i] = detail(&a.Refused[i], "")
	}
	return o
}

// takeIn reads a request and has its items written.
func (s *Server) takeIn(w http.ResponseWriter, r *http.Request, p key.Permission, write accept) (ingest.Accepted, error) {
	var none ingest.Accepted
	who, err := s.admitted(w, r, p)
	if err != nil {
		return none, err
	}
	target := s.program.Services().Intake
	if target == nil {
		return none, errNotRunning
	}
	request := ingest.Request{Sender: who.ID, Consent: who.May(key.ConsentWrite)}
	if request.IdempotencyKey, err = idempotencyKey(r.Header); err != nil {
		return none, err
	}
	form, err := formOf(r.Header.Get("Content-Type"))
	if err != nil {
		return none, err
	}
	ctx, body, err := s.hold(r, who, s.intake.slots, maxEventsBytes)
	if err != nil {
		return none, err
	}
	defer body.release()
	request.Body = body.text()
	list := itemLists.Get().(*[]string)
	defer func() {
		clear(*list)
		*list = (*list)[:0]
		itemLists.Put(list)
	}()
	if request.Items, err = split(request.Body, form, *list); err != nil {
		noteSent(w, func() string { return sentRefused })
		return none, err
	}
	*list = request.Items
	noteSent(w, func() string { return sentItems(request.Items) })
	s.rates.spend(who, len(request.Items))
	done, err := write(target, ctx, &request)
	if err != nil {
		return none, s.notAccepted(w, err, "Send it again: with an event_id and a time in each event, or with the same Idempotency-Key, a repeat does no harm")
	}
	return done, nil
}

// itemLists keeps the slices that bodies are cut into: at most 160 KB each.
var itemLists = sync.Pool{New: func() any { return new([]string) }}

// idempotencyKey returns the key of a request, "" if it has none. One that is
// there and empty, or there twice, is a mistake: its sender believes that a
// repeat does no harm.
func idempotencyKey(h http.Header) (string, error) {
	keys := h["Idempotency-Key"]
	if len(keys) == 0 {
		return "", nil
	}
	if len(keys) == 1 && keys[0] != "" && saneKey(keys[0]) {
		return keys[0], nil
	}
	return "", refusal(sluice.CodeInvalid, "Idempotency-Key has to be one, of 1 to %d visible ASCII characters", ingest.MaxIdempotencyKeyBytes)
}

// saneKey reports whether an Idempotency-Key can be one.
func saneKey(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= ingest.MaxIdempotencyKeyBytes
}

// errNotRunning: there is nowhere to write to yet, or any more.
var errNotRunning = refusal(sluice.CodeUnavailable, "the program is starting or stopping; nothing was taken in, send it again")

// notAccepted makes what the caller is told of an error of Accept. `again` is
// what the caller may do if a part of the request may be in.
func (s *Server) notAccepted(w http.ResponseWriter, err error, again string) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*flow.LogFullError](err); ok {
		s.complain(w, err)
		return refusal(sluice.CodeUnavailable, "the store is behind and the log is full; nothing of this request was taken in, send it again later")
	}
	if errors.Is(err, flow.ErrClosed) {
		return refusal(sluice.CodeUnavailable, "the program is stopping; nothing of this request was taken in, send it again")
	}
	s.complain(w, err)
	why := "the log cannot be written now"
	switch {
	case errors.Is(err, sluice.ErrFull):
		why = "redis is full"
	case errors.Is(err, flow.ErrReplicas):
		why = "too few replicas of redis have it (wait_replicas)"
	}
	return refusal(sluice.CodeUnavailable, "%s; a part of this request may be in. %s", why, again)
}

// complain logs why requests are not answered, now and then: there may be
// thousands a second.
func (s *Server) complain(w http.ResponseWriter, err error) {
	now := s.clock.Now()
	s.intake.mu.Lock()
	often := now.Sub(s.intake.complained) < complainEvery
	if !often {
		s.intake.complained = now
	}
	s.intake.mu.Unlock()
	if !often {
		s.log.Warn("request not answered as it should be", "id", idOf(w), "error", err)
	}
}
