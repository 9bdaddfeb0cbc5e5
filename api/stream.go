package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/track/feed"
	"sluice/user/consent"
)

const streamPath = "/v1/events/stream"

// Bounds of streams of events.
const (
	maxStreams       = 32 // of a process, half of them of one key
	maxStreamIDBytes = 8 << 10

	// heartbeatEvery is how often something is written though nothing happens: proxies
	// and clients find out by it whether the other side lives. It has the id: where a
	// filter takes next to nothing, a client that connects again would else read all anew.
	// The key is looked at as often: one that was revoked reads on no longer than that.
	heartbeatEvery = 15 * time.Second

	// streamWriteTimeout bounds each write. A client that reads nothing for so long is cut
	// off; with Last-Event-ID it goes on where it was.
	streamWriteTimeout = 10 * time.Second
)

// stream is GET /v1/events/stream: Server-Sent Events (WHATWG HTML, 9.2). An event is one
// line of data, without a name. A block with an id alone follows each page: browsers take
// it for the last event's id, and dispatch nothing.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	reader, who, done, err := s.openStream(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	defer done()
	ctx, cancel, write := s.serverSent(w, r)
	defer cancel()
	if write(fmt.Appendf(nil, "retry: 1000\nid: %s\n\n", reader.ID())) != nil || r.Method == http.MethodHead {
		return
	}
	quiet := time.NewTicker(s.heartbeat)
	defer quiet.Stop()
	for ctx.Err() == nil {
		select {
		case <-quiet.C:
			if who, err = s.allowed(w, r, key.EventsRead); err != nil || write(fmt.Appendf(nil, ": alive\nid: %s\n\n", reader.ID())) != nil {
				return
			}
		default:
		}
		part, err := reader.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("a stream of events ends: the database does not answer; its client connects again", "id", idOf(w), "error", err)
			}
			return
		}
		if text := streamed(&part, reader, who.May(key.OptInWrite)); len(text) > 0 && write(text) != nil {
			return
		}
		if !part.More {
			_ = sluice.Pause(ctx, feed.Every)
		}
	}
}

// serverSent begins an answer of Server-Sent Events. ctx ends with the request, when the
// server stops, or by cancel, which the caller calls. write returns when the client has
// its text, or does not take it.
func (s *Server) serverSent(w http.ResponseWriter, r *http.Request) (ctx context.Context, cancel func(), write func(text []byte) error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of nginx
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // that of the request; it has been read
	ctx, cancel = context.WithCancel(r.Context())
	go func() { // ends with ctx
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel, func(text []byte) error {
		if err := control.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
}

// openStream lets a request through the gate. done ends what it counts for.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) (reader *feed.Stream, who key.Identity, done func(), err error) {
	if who, err = s.admitted(w, r, key.EventsRead); err != nil {
		return nil, who, nil, err
	}
	s.rates.spend(who, 1)
	services := s.program.Services()
	if services == NotRunning {
		return nil, who, nil, errNotRunning
	}
	q, err := readQuery(r, []string{"types", "app_id", "user_id"})
	if err != nil {
		return nil, who, nil, err
	}
	filter := feed.Filter{App: q.Get("app_id"), User: q.Get("user_id")}
	if types := q.Get("types"); types != "" {
		filter.Types = strings.Split(types, ",")
	}
	if err := feed.CheckTypes(filter.Types); err != nil {
		return nil, who, nil, refusal(sluice.CodeInvalid, "types: %v", err)
	}
	last := r.Header.Get("Last-Event-ID")
	if len(last) > maxStreamIDBytes {
		return nil, who, nil, refusal(sluice.CodeInvalid, "Last-Event-ID has %d bytes, at most %d are possible", len(last), maxStreamIDBytes)
	}
	release, err := s.streams.take(who.ID, "streams of events are open")
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return nil, who, nil, err
	}
	services.Feed.Streams.Open.Add(1)
	done = func() { services.Feed.Streams.Open.Add(-1); release() }
	reader = &feed.Stream{Heads: services.Feed, Filter: filter}
	if err = reader.Begin(r.Context(), last, false); err == nil {
		return reader, who, done, nil
	}
	done()
	if feed.IsIDError(err) {
		return nil, who, nil, refusal(sluice.CodeInvalid, "Last-Event-ID is none that this stream has sent; leave it out to begin now")
	}
	return nil, who, nil, s.storeError(w, err, "connect again")
}

// streamed is a part of a stream as it is sent; empty: there is nothing to send. Only who
// may ask for links that confirm an opt-in sees them.
func streamed(part *feed.Part, reader *feed.Stream, links bool) (text []byte) {
	if part.Missed > 0 || part.AtLeast {
		text = fmt.Appendf(text, "event: missed\ndata: {\"count\":%d,\"at_least\":%t}\n\n", part.Missed, part.AtLeast)
	}
	for i := range part.Events {
		if !links {
			consent.HideLink(&part.Events[i].Event)
		}
		text = append(text, "data: "...)
		text = append(feed.Append(text, &part.Events[i].Event), "\n\n"...)
	}
	if len(text) > 0 {
		text = fmt.Appendf(text, "id: %s\n\n", reader.ID())
	}
	return text
}
