package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/api/braze"
	"sluice/lib/connlimit"
	"sluice/store"
	"sluice/track/hook"
	"sluice/user/consent"
)

// Bounds of the server. A client that connects and says nothing, reads nothing
// or never ends costs one connection for so long, and no more than maxConns.
// When all are taken, the one that has been quiet longest, and for quietGrace,
// is closed.
const (
	maxConns           = 1024
	quietGrace         = 250 * time.Millisecond
	maxHeaderBytes     = 16 << 10
	maxBodyBytes       = 1 << 20
	readHeaderTimeout  = 5 * time.Second
	requestReadTimeout = 30 * time.Second
	answerWriteTimeout = 60 * time.Second
	idleTimeout        = 90 * time.Second
	maxParallelScrapes = 4
)

// Paths below /v1.
const (
	eventsPath   = "/v1/events"
	countersPath = "/v1/counters"
	seriesPath   = "/v1/series"
	pingPath     = "/v1/ping"

	// reactionsPath is where it is read what mail has sent and got back.
	reactionsPath = "/v1/reactions"
)

// Options are what New may be told.
type Options struct {
	// RootKey is a key with all permissions, at least 32 characters; empty:
	// there is none.
	RootKey string

	// Version and Revision are what the metrics say that runs.
	Version, Revision string

	// KeyItemsPerSecond bounds what each key may send to this process; 0: nothing
	// does.
	KeyItemsPerSecond int

	// BrazeLimits bound the calls of Braze's API to this process.
	BrazeLimits braze.Limits

	// Proxies are believed when they say whose request they pass on.
	Proxies []netip.Prefix

	// Proxied says that a proxy stands before the server: a caller from loopback
	// may be anybody. Proxies imply it.
	Proxied bool

	// Hosts are names by which a server on loopback may be addressed, beside those
	// of loopback and of its own address.
	Hosts []string

	// Hooks read what mail providers post; nil: nobody may post.
	Hooks *hook.Receiver

	// Clock is where times come from; nil: the machine's.
	Clock sluice.Clock
}

// Server answers HTTP. Start and Stop may each be called once; a server that
// was never started may be stopped.
type Server struct {
	program Program
	log     *slog.Logger
	http    *http.Server
	address string
	served  chan struct{} // closed when the goroutine of Start has ended
	started bool

	clock     sluice.Clock
	authority *authority
	rates     *rates
	intake    *intake
	hooks     *hooks
	dialect   *dialect
	proxies   []netip.Prefix

	version, revision string
	exposure          exposure

	ledgerLooks ledgerLooks
	overviews   overviews
	seriesSlots chan struct{}
	previews    chan struct{}
	journeys    chan struct{}
	simulations chan struct{}
	domainSlots chan struct{}
	tests       chan struct{} // of webhooks
	pieces      chan struct{} // of imports
	streams     *seats
	searches    chan struct{}
	looks       chan struct{} // for people
	sendLooks   chan struct{} // at sends
	lives       *seats        // streams of the overview
	stopping    chan struct{} // closed when the server stops: profiles end
	stopOnce    sync.Once
	requests    requestIDs
	unnamed     unnamed

	heartbeat      time.Duration // of streams of events
	strangerWithin time.Duration // that a body of a stranger may bring nothing
}

// New returns a server for HOST:PORT; port 0 takes any free one.
func New(address string, program Program, log *slog.Logger, options Options) *Server {
	if options.Clock == nil {
		options.Clock = sluice.SystemClock{}
	}
	s := &Server{program: program, log: log, address: address, served: make(chan struct{}), clock: options.Clock}
	s.authority = newAuthority(options.RootKey, func() store.KeyStore { return program.Services().Keys }, options.Clock)
	s.rates = newRates(options.KeyItemsPerSecond, options.Clock)
	s.intake = newIntake()
	s.hooks = newHooks(options.Hooks)
	s.dialect = newDialect(options.BrazeLimits)
	s.proxies = options.Proxies
	s.exposure = newExposure(&options)
	s.version, s.revision = options.Version, options.Revision
	s.seriesSlots = make(chan struct{}, parallelSeries)
	s.journeys = make(chan struct{}, parallelJourneys)
	s.simulations = make(chan struct{}, parallelSimulations)
	s.previews = make(chan struct{}, parallelPreviews)
	s.domainSlots = make(chan struct{}, parallelDomains)
	s.tests = make(chan struct{}, parallelTests)
	s.pieces = make(chan struct{}, parallelPieces)
	s.streams = newSeats(maxStreams)
	s.searches = make(chan struct{}, parallelSearches)
	s.looks = make(chan struct{}, parallelPeople)
	s.sendLooks = make(chan struct{}, parallelSends)
	s.lives = newSeats(maxLives)
	s.heartbeat, s.strangerWithin = heartbeatEvery, strangerWithin
	s.stopping = make(chan struct{})
	s.requests.init()
	s.http = &http.Server{
		Handler:           s.guard(s.handler()),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       requestReadTimeout,
		WriteTimeout:      answerWriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         connlimit.ConnState,
		ConnContext:       connlimit.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// route is a method of a path and what answers it.
type route struct {
	method, path string // GET brings HEAD with it
	answer       http.HandlerFunc
}

// routes is the table of all paths: those that have their own way, calls, and the calls
// of Braze's API. openapi.json describes each of them, which a test compares.
func (s *Server) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	all := []route{
		{get, "/healthz", s.health},
		{get, "/readyz", s.ready},
		{get, "/metrics", s.metrics()},
		{get, pprofPath, s.pprof},
		{get, "/openapi.json", s.document},
		{get, "/docs", s.docs},
		{get, profilePath, s.profile},
		{get, statusPath, s.status},
		{get, ledgerPagePath, s.ledgerPage},
		{post, eventsPath, s.events},
		{get, streamPath, s.stream},
		{get, livePath, s.live},
		{post, countersPath, s.counters},
		{post, importPath + "/pieces", s.importPiece},
		{post, messagesPath, s.messages},
		{post, journeyPath + "/enter", s.enterJourney},
		{get, pingPath, s.ping},
		{get, sessionPath, s.session},
		{post, sessionPath, s.signIn},
		{http.MethodPut, sessionPath, s.changePassword},
		{http.MethodDelete, sessionPath, s.signOut},
		{post, setupPath, s.setup},
		{get, mailboxViewPath, s.viewMailbox},
		{post, optInPath, s.optIn},
		{http.MethodOptions, optInPath, s.optIn},
		{get, consent.ConfirmPath, s.optInConfirm},
		{post, consent.ConfirmPath, s.optInConfirm},
		{get, consent.UnsubscribePath, s.unsubscribe},
		{post, consent.UnsubscribePath, s.unsubscribe},
		{post, hookPath, s.hook},
		{get, hookPath, s.hook},
	}
	for i := range calls {
		all = append(all, route{calls[i].method, calls[i].path, s.serve(&calls[i])})
	}
	for _, e := range braze.Endpoints() {
		all = append(all, route{e.Method, e.Path, func(w http.ResponseWriter, r *http.Request) { s.braze(w, r, &e) }})
	}
	return all
}

// hasBody reports whether requests of a method have a body to speak of.
func hasBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// handler answers by the table. Bodies of what is posted, put or patched are bounded where
// they are read, those of all else here.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	methods, answers := make(map[string][]string), make(map[string]map[string]http.HandlerFunc) // by path
	for _, r := range s.routes() {
		if answers[r.path] == nil {
			answers[r.path] = make(map[string]http.HandlerFunc)
		}
		answers[r.path][r.method] = r.answer
		if methods[r.path] = append(methods[r.path], r.method); r.method == http.MethodGet {
			answers[r.path][http.MethodHead] = r.answer
			methods[r.path] = append(methods[r.path], http.MethodHead)
		}
	}
	for path, possible := range methods {
		h := s.only(possible, answers[path])
		if !slices.ContainsFunc(possible, hasBody) {
			h = http.MaxBytesHandler(h, maxBodyBytes)
		}
		mux.Handle(path, h)
	}
	s.dashboard(mux)
	unknown := http.MaxBytesHandler(http.HandlerFunc(s.unknown), maxBodyBytes)
	mux.Handle("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			connlimit.Busy(r) // who sends a body has still to send it
		}
		// The mux would redirect these, with a page for an answer. It goes by the path as
		// it was sent, where an id may have slashes and dots that are escaped.
		if !isClean(r.URL.EscapedPath()) {
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isClean reports whether a path has no empty or dotted parts.
func isClean(p string) bool {
	c := path.Clean(p)
	return p == c || c != "/" && p == c+"/"
}

// Start listens and returns; requests are answered until Stop.
func (s *Server) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; is another sluice running? choose another address with --listen", s.address, err)
	}
	s.exposure.listens(s.address, l.Addr())
	s.address = l.Addr().String()
	s.started = true
	go func() { // ends when Stop closes the listener
		defer close(s.served)
		if err := s.http.Serve(refusing{connlimit.NewListener(l, maxConns, quietGrace, s.clock), &s.requests}); !errors.Is(err, http.ErrServerClosed) {
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
	s.stopOnce.Do(func() { close(s.stopping) })
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop http server: requests were cut off: %w", err), s.http.Close())
	}
	<-s.served
	return err
}

// Values of headers that many answers have: they share them, and write the
// names as they are sent.
var (
	headerNosniff = []string{"nosniff"}
	headerNoStore = []string{"no-store"}
	headerJSON    = []string{"application/json"}
)

// guard sets what every answer carries, refuses hosts that are not ours, turns a
// panic into an answer, and writes the access log.
func (s *Server) guard(next http.Handler) http.Handler {
	return s.wrap(next, s.exposure.check)
}

// wrap is guard with its own word about which requests are refused.
func (s *Server) wrap(next http.Handler, check func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &answer{ResponseWriter: rw, id: s.requests.idOf(r)}
		h := w.Header()
		h["X-Content-Type-Options"], h["Cache-Control"] = headerNosniff, headerNoStore
		h["X-Request-Id"] = []string{w.id}
		if len(r.TransferEncoding) > 0 {
			// RFC 9112, 6.3: of a client that sends a Content-Length beside the
			// chunks nothing more must be read. net/http drops that length
			// unseen, so all who send chunks get a new connection.
			h.Set("Connection", "close")
		}
		debug := s.log.Enabled(r.Context(), slog.LevelDebug)
		var started time.Time
		if debug {
			started = s.clock.Now()
		}
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.writeError(w, r, fmt.Errorf("panic: %v", p))
			}
			s.finishChange(w, r)
			if w.status != http.StatusRequestTimeout { // of a client that sends no more
				takeRest(rw, r)
			}
			if debug { // the pattern: what a path is filled with may name a user
				s.log.Debug("request", "id", w.id, "method", r.Method, "path", r.Pattern, "status", w.status,
					"seconds", s.clock.Now().Sub(started).Seconds(), "from", r.RemoteAddr, "key", w.sender)
			}
		}()
		if err := check(r); err != nil {
			s.writeError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// only refuses other methods, and names those that are possible (RFC 9110,
// 15.5.6).
func (s *Server) only(methods []string, answers map[string]http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if next := answers[r.Method]; next != nil {
			next(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.writeError(w, r, &statusError{http.StatusMethodNotAllowed,
			refusal(sluice.CodeInvalid, "%s is not possible here, only %s", r.Method, strings.Join(methods, " and "))})
	})
}

// ping answers with nothing: whether the way here works.
func (s *Server) ping(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// health says that the process is alive, whatever it waits for: restarting it
// would not bring Redis back.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

// readiness is the answer of /readyz; Reasons is empty if Ready. Warnings are what is
// wrong outside: routes that do not work, bounds that are nearly reached.
type readiness struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`
	Warnings []string `json:"warnings,omitempty"`

	// How far back the logs that this process stores keep what is stored, the least
	// of all; nil: it stores none.
	Margin *int `json:"log_margin_seconds,omitempty"`

	// The same of lists, and hashes, that go into tables.
	ListMargin *int `json:"list_margin_seconds,omitempty"`
}

// Warner is what a Program may be as well: it knows what is wrong outside, for which
// no other process does better.
type Warner interface{ Warnings() []string }

// Hidden is what stands in the place of reasons and warnings for a caller who may not
// watch: they name servers, lists and routes.
const Hidden = "not shown without a key: ask on this machine past the proxy, or with the permission metrics:read"

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	answer := readiness{Ready: true, Reasons: []string{}}
	watched := s.exposure.open(r) || r.Header.Get("Authorization") != "" && s.mayWatch(w, r) == nil
	if covered, known := s.program.Margin(); known {
		seconds := int(covered.Seconds())
		answer.Margin = &seconds
	}
	if covered, known := s.program.ListMargin(); known {
		seconds := int(covered.Seconds())
		answer.ListMargin = &seconds
	}
	if answer.Warnings = s.warnings(); len(answer.Warnings) > 0 && !watched {
		answer.Warnings = []string{Hidden}
	}
	err := s.program.Ready()
	if err == nil {
		s.writeJSON(w, http.StatusOK, answer)
		return
	}
	w.Header().Set("Retry-After", "1")
	if answer.Ready, answer.Reasons = false, reasons(err); !watched {
		answer.Reasons = []string{Hidden}
	}
	s.writeJSON(w, http.StatusServiceUnavailable, answer)
}

// reasons takes joined errors apart. What several say is there once.
func reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		for _, reason := range reasons(e) {
			if !slices.Contains(all, reason) {
				all = append(all, reason)
			}
		}
	}
	return all
}

// unknown answers at a path where nothing is: with the dashboard, which says so, to a
// browser that somebody has led there.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	if wantsPage(r) {
		s.answerPage(w, r, http.StatusNotFound)
		return
	}
	s.writeError(w, r, &sluice.Error{Code: sluice.CodeNotFound, Index: -1,
		Message: "nothing is at " + r.URL.Path + "; what there is stands at /docs"})
}
