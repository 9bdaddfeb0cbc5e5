package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice"
)

// Bounds of the server. Whoever connects and says nothing, reads nothing or
// never ends costs one connection for so long, and no more than maxConns.
const (
	maxConns           = 1024
	maxHeaderBytes     = 16 << 10
	maxBodyBytes       = 1 << 20
	readHeaderTimeout  = 5 * time.Second
	requestReadTimeout = 30 * time.Second
	answerWriteTimeout = 60 * time.Second
	idleTimeout        = 90 * time.Second
	maxParallelScrapes = 4
)

// Server answers HTTP. Start and Stop may each be called once; a server that
// was never started may be stopped.
type Server struct {
	program Program
	log     *slog.Logger
	http    *http.Server
	address string
	served  chan struct{} // closed when the goroutine of Start has ended
	started bool
}

// New returns a server for HOST:PORT; port 0 takes any free one.
func New(address string, program Program, log *slog.Logger) *Server {
	s := &Server{program: program, log: log, address: address, served: make(chan struct{})}
	s.http = &http.Server{
		Handler:           http.MaxBytesHandler(s.guard(s.routes()), maxBodyBytes),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       requestReadTimeout,
		WriteTimeout:      answerWriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// routes is the table of all paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.getOnly(s.health))
	mux.HandleFunc("/readyz", s.getOnly(s.ready))
	mux.HandleFunc("/metrics", s.getOnly(promhttp.HandlerFor(newRegistry(s.program), promhttp.HandlerOpts{
		MaxRequestsInFlight: maxParallelScrapes,
		ErrorLog:            slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}).ServeHTTP))
	mux.HandleFunc("/", s.unknown)
	return mux
}

// Start listens and returns; requests are answered until Stop.
func (s *Server) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; is another sluice running? choose another address with --listen", s.address, err)
	}
	s.address = l.Addr().String()
	s.started = true
	go func() { // ends when Stop closes the listener
		defer close(s.served)
		if err := s.http.Serve(newLimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("http server ended", "error", err)
		}
	}()
	return nil
}

// Address returns where the server listens, with the real port once started.
func (s *Server) Address() string { return s.address }

// Stop closes the listener and waits for the requests in hand until ctx ends,
// then cuts them off.
func (s *Server) Stop(ctx context.Context) error {
	if !s.started {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop http server: requests were cut off: %w", err), s.http.Close())
	}
	<-s.served
	return err
}

// guard sets what every answer carries and turns a panic into an answer.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.writeError(w, r, fmt.Errorf("panic: %v", p))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// getOnly refuses other methods than GET and HEAD.
func (s *Server) getOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next(w, r)
			return
		}
		// RFC 9110, 15.5.6: a 405 must name the methods that are allowed.
		w.Header().Set("Allow", "GET, HEAD")
		s.writeJSON(w, http.StatusMethodNotAllowed, errorBody{errorDetail{
			Code: sluice.CodeInvalid, Message: r.Method + " is not possible here, only GET and HEAD"}})
	}
}

// health says that the process is alive, whatever it waits for: restarting it
// would not bring Redis back.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

// readiness is the answer of /readyz; Reasons is empty if Ready.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	err := s.program.Ready()
	if err == nil {
		s.writeJSON(w, http.StatusOK, readiness{true, []string{}})
		return
	}
	w.Header().Set("Retry-After", "1")
	s.writeJSON(w, http.StatusServiceUnavailable, readiness{false, reasons(err)})
}

// reasons takes joined errors apart.
func reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		all = append(all, reasons(e)...)
	}
	return all
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.writeError(w, r, &sluice.Error{Code: sluice.CodeNotFound, Index: -1,
		Message: "nothing is at " + r.URL.Path + "; there are /healthz, /readyz and /metrics"})
}
