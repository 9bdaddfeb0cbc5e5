package land

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/track/link"
)

// Bounds of the listener. They are its own: who opens all of its connections
// takes none of the API's.
const (
	maxConns           = 512
	quietGrace         = 250 * time.Millisecond
	maxHeaderBytes     = 16 << 10
	readHeaderTimeout  = 5 * time.Second
	requestReadTimeout = 10 * time.Second
	answerWriteTimeout = 20 * time.Second
	idleTimeout        = 30 * time.Second
)

// Options are what New is told.
type Options struct {
	Keys     *link.Keys
	Recorder *Recorder
	Judge    *Judge
	Choices  *Choices // which Page writes; nil: it writes otherwise

	// Targets has the targets of long links; nil: no mail has such links.
	Targets Targets

	// Page answers below link.PagePath, with pages about subscriptions.
	Page http.Handler

	Partitions int

	// Proxies are believed when they say whose request they pass on.
	Proxies []netip.Prefix

	// Certificate returns what the listener shows; nil: it speaks no TLS.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	Clock sluice.Clock
	Log   *slog.Logger
}

// Server answers what mails bring back. Start and Stop may each be called once.
type Server struct {
	o       Options
	http    *http.Server
	address string
	served  sync.WaitGroup
	plain   *plain // nil: it has not started, or speaks TLS
	counts  counts
	targets *targets
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	s := &Server{o: o, targets: newTargets(o.Targets)}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       requestReadTimeout,
		WriteTimeout:      answerWriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         connlimit.ConnState,
		ConnContext:       connlimit.ConnContext,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if o.Certificate != nil {
		s.http.TLSConfig = &tls.Config{GetCertificate: o.Certificate, MinVersion: tls.VersionTLS12}
	}
	return s
}

// Start listens on HOST:PORT and returns; requests are answered until Stop.
func (s *Server) Start(ctx context.Context, address string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for opens and clicks on %s: %w; choose another address in track.listen", address, err)
	}
	s.address = l.Addr().String()
	limited := connlimit.NewListener(l, maxConns, quietGrace, s.o.Clock)
	serve := func() error { return s.http.ServeTLS(limited, "", "") }
	if s.o.Certificate == nil {
		s.plain = newPlain(s, limited)
		serve = func() error { return s.http.Serve(s.plain.others) }
	}
	s.served.Go(func() { // ends when Stop closes the listener
		err := serve()
		if !errors.Is(err, http.ErrServerClosed) {
			s.o.Log.Error("the listener for opens and clicks has ended", "error", err)
		}
	})
	return nil
}

// Address returns where the server listens, with the real port once started.
func (s *Server) Address() string { return s.address }

// Stop closes the listener and waits for the requests in hand until ctx ends,
// then cuts them off.
func (s *Server) Stop(ctx context.Context) error {
	var err error
	if s.plain != nil {
		err = s.plain.stop(ctx)
	}
	if err = errors.Join(err, s.http.Shutdown(ctx)); err != nil {
		err = errors.Join(fmt.Errorf("stop the listener for opens and clicks: requests were cut off: %w", err), s.http.Close())
	}
	s.served.Wait()
	return err
}

// Values of headers, which all answers share.
var (
	noStore    = []string{"no-store"}
	noReferrer = []string{"no-referrer"}
	nosniff    = []string{"nosniff"}
	gifType    = []string{"image/gif"}
	gifLength  = []string{"43"}
	nothing    = []string{"0"}
	closes     = []string{"close"}
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Cache-Control"], h["Referrer-Policy"], h["X-Content-Type-Options"] = noStore, noReferrer, nosniff
	path := r.URL.Path
	if strings.HasPrefix(path, link.PagePath) {
		s.o.Page.ServeHTTP(w, r)
		return
	}
	if r.Body != http.NoBody { // nothing here reads one (RFC 9110, 9.3.1)
		h["Connection"] = closes
	}
	connlimit.Busy(r)
	answer := s.click
	token, ok := strings.CutPrefix(path, link.ClickPath)
	if name, pixel := strings.CutPrefix(path, link.OpenPath); pixel {
		answer = s.open
		token, ok = link.OpenToken(name)
	}
	switch {
	case !ok:
		s.notFound(w)
	case r.Method != http.MethodGet && r.Method != http.MethodHead: // RFC 9110, 15.5.6
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		answer(w, r, token)
	}
}

// notFound says nothing of what was asked for: no echo, and no difference between
// what was never made and what was changed.
func (s *Server) notFound(w http.ResponseWriter) {
	s.counts.refused.Add(1)
	w.Header()["Content-Length"] = nothing
	w.WriteHeader(http.StatusNotFound)
}

// pixelBytes is a transparent GIF of one pixel (GIF89a, with a graphic control
// extension).
var pixelBytes = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

// open answers with the pixel, whatever becomes of the event.
func (s *Server) open(w http.ResponseWriter, r *http.Request, token string) {
	began := s.o.Clock.Now()
	place, err := s.o.Keys.Read(link.KindOpen, token, "")
	if err != nil || place.Partition >= s.o.Partitions {
		s.notFound(w)
		return
	}
	s.record(r, &visit{Place: place, name: sluice.EventOpened, began: began})
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = gifType, gifLength
	if _, err := w.Write(pixelBytes); err != nil { // of HEAD nothing is written
		s.o.Log.Debug("a pixel was not read to its end", "error", err)
	}
	s.counts.seconds.Observe(s.o.Clock.Now().Sub(began))
}

// click redirects to the target, which the token's MAC covers, itself or by its hash.
func (s *Server) click(w http.ResponseWriter, r *http.Request, token string) {
	began := s.o.Clock.Now()
	target, ok := link.Target(r.URL.RawQuery)
	signed := target
	hash, long := link.LongHash(r.URL.RawQuery)
	if long = !ok && long && s.o.Targets != nil; long {
		signed, ok = link.LongText(hash), true
	}
	if !ok || !long && len(target) > link.MaxTargetBytes {
		s.notFound(w)
		return
	}
	place, err := s.o.Keys.Read(link.KindClick, token, signed)
	if err != nil || place.Partition >= s.o.Partitions {
		s.notFound(w)
		return
	}
	if long {
		if target, ok = s.longTarget(w, r, hash); !ok {
			return
		}
	}
	if !link.Redirects(target) { // a version before may have signed it
		s.notFound(w)
		return
	}
	s.record(r, &visit{Place: place, name: sluice.EventClicked, url: target, began: began})
	h := w.Header()
	h["Location"], h["Content-Length"] = []string{link.Location(target)}, nothing
	w.WriteHeader(http.StatusFound)
	s.counts.seconds.Observe(s.o.Clock.Now().Sub(began))
}

// longTarget returns the target of a link that has its hash, or answers: 404 if it is not
// kept any more, 503 while that cannot be looked up. A click that is answered so is not
// recorded: its visitor tries again.
func (s *Server) longTarget(w http.ResponseWriter, r *http.Request, hash string) (string, bool) {
	target, err := s.targets.find(r.Context(), hash)
	if err == nil {
		return target, true
	}
	if errors.Is(err, errNoTarget) {
		s.notFound(w)
		return "", false
	}
	s.o.Recorder.say("a click is answered 503: the target of its link cannot be read", err)
	w.Header()["Content-Length"] = nothing
	w.Header().Set("Retry-After", retryAfterText)
	w.WriteHeader(http.StatusServiceUnavailable)
	return "", false
}
