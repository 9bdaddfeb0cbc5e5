package api

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/api/braze"
	"sluice/ingest"
	"sluice/lib/connlimit"
	"sluice/lib/key"
	"sluice/mail"
	"sluice/mail/suppress"
	"sluice/user"
)

// Bounds of calls of Braze's API, beside those of all requests.
const (
	// maxStrangersBytes bounds the bodies that are read before it is known whose
	// they are, of all requests together: some old clients have their key there.
	maxStrangersBytes = 64 << 20

	// parallelBraze bounds the calls that may wait for the database; others wait
	// for slotWait. Each call that waits for more than that has as many of its own.
	parallelBraze = 64
)

// dialect is what the handlers of Braze's API share.
type dialect struct {
	limits    *braze.Limiter
	calls     map[string]braze.LimitName // by their paths
	strangers *connlimit.Budget
	shares    *connlimit.Shares // of strangers, by network
	slots     chan struct{}
	waiting   map[string]chan struct{} // the slots of calls that wait, by their paths
}

func newDialect(limits braze.Limits) *dialect {
	b := connlimit.NewBudget(maxStrangersBytes)
	d := &dialect{limits: braze.NewLimiter(limits), calls: make(map[string]braze.LimitName), strangers: b, shares: b.Shares(maxHeldOfStranger), slots: make(chan struct{}, parallelBraze), waiting: make(map[string]chan struct{})}
	for _, e := range braze.Endpoints() {
		d.calls[e.Path] = e.Limit
	}
	for _, path := range braze.Waiting {
		d.waiting[path] = make(chan struct{}, parallelBraze)
	}
	return d
}

// brazeAgain is what the sender of a call is told that may be in, in part.
const brazeAgain = "Send it again: events, purchases and increments that are in already are counted again, all else does no harm"

// braze answers a call of Braze's API.
func (s *Server) braze(w http.ResponseWriter, r *http.Request, e *braze.Endpoint) {
	c := &brazeCall{s: s, w: w, r: r, e: e, started: s.clock.Now()}
	defer c.release()
	done, err := c.answer()
	switch {
	case err == nil:
		s.intake.accepted.Add(float64(done.Accepted))
		s.intake.refused.Add(float64(done.Refused))
	case errors.Is(err, errBrazeKey):
		done = braze.Reply{Status: http.StatusUnauthorized, Body: braze.InvalidKey(c.key)}
		c.taken = braze.Taken{Limit: headerEmpty, Remaining: headerEmpty, Reset: headerEmpty}
		w.Header().Set("WWW-Authenticate", "Bearer")
	default:
		done = c.refusal(err)
	}
	c.write(done)
	if e.Method == http.MethodPost {
		s.intake.answers.WithLabelValues(strconv.Itoa(done.Status)).Inc()
		if err == nil && done.Accepted > 0 {
			s.intake.seconds.Observe(s.clock.Now().Sub(c.started).Seconds())
		}
	}
}

// errBrazeKey: the call has no good key. Its answer shows what was sent instead.
var errBrazeKey = errors.New("invalid key")

// headerEmpty is the value of headers that are there and say nothing.
var headerEmpty = []string{""}

// brazeCall is one call on its way, and what it works on (braze.Core).
type brazeCall struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	e       *braze.Endpoint
	started time.Time
	key     string // as it was sent
	sender  string // the id of the key
	bounded string // the same, empty of the root key
	query   url.Values
	body    *buffer // nil: not read yet

	services *Services
	taken    braze.Taken
}

// Update implements braze.Core.
func (c *brazeCall) Update(ctx context.Context, updates []user.Update) error {
	if c.services.Intake == nil {
		return errNotRunning
	}
	if err := c.services.Intake.Update(ctx, updates); err != nil {
		return c.s.notAccepted(c.w, err, brazeAgain)
	}
	return nil
}

// updatedOnce is for how long the name of UpdateOnce is known, at least as long as Once
// knows it.
const updatedOnce = 24 * time.Hour

// UpdateOnce implements braze.Core. Its names are among those for mail, which are bounded. A
// call before this one that had another content may have written nothing: the log knows.
func (c *brazeCall) UpdateOnce(ctx context.Context, name, content string, u user.Update) error {
	_, once, _, err := c.Once(ctx, name, content)
	if err != nil {
		return err
	}
	in := c.services.Intake
	written, err := in.Record(ctx, u.Key, nil, []user.Update{u}, once, updatedOnce)
	if err != nil {
		return c.s.notAccepted(c.w, err, brazeMailAgain)
	}
	if written {
		in.Names.Add(c.bounded, 1)
	}
	return nil
}

// Cancel implements braze.Core.
func (c *brazeCall) Cancel(ctx context.Context, message string) (mail.Cancelled, error) {
	return c.services.Canceller.Cancel(ctx, message)
}

// Stored implements braze.Core.
func (c *brazeCall) Stored(ctx context.Context, beforeMillis int64) (bool, error) {
	return c.services.Canceller.Stored(ctx, beforeMillis)
}

// brazeMailAgain is what the sender of a call is told whose mail may be in.
const brazeMailAgain = "With an external_send_id, send it again: nothing is mailed twice. Without one, what is sent again may be"

// Submit implements braze.Core.
func (c *brazeCall) Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error) {
	for i := range drafts {
		drafts[i].Key = c.bounded
	}
	ids, err := c.services.Submitter.Submit(ctx, once, drafts)
	if err != nil {
		return nil, c.s.notAccepted(c.w, err, brazeMailAgain)
	}
	return ids, nil
}

// brazeSender is the sender of all names.
const brazeSender = "braze"

// Once implements braze.Core. The names are one room for all keys.
func (c *brazeCall) Once(ctx context.Context, name, content string) (first time.Time, once string, same bool, err error) {
	in := c.services.Intake
	if in == nil {
		return first, "", false, errNotRunning
	}
	first, once, err = in.Once(ctx, &ingest.Request{Sender: brazeSender, IdempotencyKey: name, Key: c.bounded, Body: content})
	if errors.Is(err, ingest.ErrOtherBody) {
		return first, once, false, nil
	}
	if err != nil {
		return first, "", false, c.s.notAccepted(c.w, err, brazeMailAgain)
	}
	return first, once, true, nil
}

// Seen implements braze.Core.
func (c *brazeCall) Seen(ctx context.Context, name string) (first time.Time, once string, err error) {
	in := c.services.Intake
	if in == nil {
		return first, "", errNotRunning
	}
	if first, once, err = in.Seen(ctx, &ingest.Request{Sender: brazeSender, IdempotencyKey: name}); err != nil {
		err = c.s.notAccepted(c.w, err, brazeMailAgain)
	}
	return first, once, err
}

// brazeStores are the services that calls read.
func brazeStores(v *Services) braze.Stores {
	stores := braze.Stores{
		Users: v.Users, Series: v.Series, Segments: v.Segments, Templates: v.Templates, Sends: v.Sends, Schedules: v.Schedules,
		Applied: v.Applied, SenderRefused: v.SenderRefused, Unlist: v.Unlist,
	}
	if v.Suppressions != nil {
		stores.Suppressions = struct {
			mail.SuppressionStore
			*suppress.Service
		}{v.Suppressions.Store, v.Suppressions}
	}
	return stores
}

func (c *brazeCall) release() { c.body.release() }

// answer lets a call through its gates, the cheapest first, and has it answered.
func (c *brazeCall) answer() (done braze.Reply, err error) {
	s := c.s
	if c.r.URL.RawQuery != "" {
		// What cannot be read of it is not there.
		c.query, _ = url.ParseQuery(c.r.URL.RawQuery)
	}
	c.taken = s.dialect.limits.Look(c.e.Limit, c.started)
	who, err := c.identify()
	if err != nil {
		return done, err
	}
	if c.taken = s.dialect.limits.Take(c.e.Limit, c.started); !c.taken.OK {
		return done, &tooFast{after: c.taken.Wait}
	}
	if !who.May(c.e.Permission) {
		return braze.Lacks(c.e.Permission), nil
	}
	if c.e.Limit != braze.LimitNone {
		if err := s.rates.admit(who); err != nil {
			return done, err
		}
	}
	if c.e.Method == http.MethodPost && c.body == nil {
		if c.body, err = readBody(c.r, s.intake.shares.Of(who.ID), maxEventsBytes); err != nil {
			return done, err
		}
	}
	connlimit.Busy(c.r)
	ctx := s.intake.waits.Context(s.clock.Now())
	slots := s.dialect.slots
	if c.e.Limit == braze.LimitTrack {
		slots = s.intake.slots
	} else if own := s.dialect.waiting[c.e.Path]; own != nil {
		slots = own
	}
	body, err := s.unpacked(ctx, c.r, c.body, slots)
	c.body = nil
	if err != nil {
		return done, err
	}
	defer body.release()
	if body.body != nil {
		noteSent(c.w, func() string { return sentObject(body.text(), "api_key") })
	}
	if c.services = s.program.Services(); c.services == NotRunning {
		return done, errNotRunning
	}
	done, err = c.e.Answer(ctx, &braze.Request{Body: body.text(), Query: c.query, ID: c.r.PathValue(braze.CampaignID), Now: c.started, Core: c, Log: s.log, Stores: brazeStores(c.services), Sender: sourceAPI + c.sender})
	if err == nil && c.e.Limit != braze.LimitNone {
		s.rates.spend(who, max(1, done.Accepted+done.Refused))
	}
	return done, err
}

// identify finds out whose call it is: by the header, or as old clients have
// it, by api_key in the query or in the body.
func (c *brazeCall) identify() (key.Identity, error) {
	header := c.r.Header.Get("Authorization")
	c.key = header
	if scheme, rest, ok := strings.Cut(header, " "); ok && strings.EqualFold(scheme, "Bearer") {
		c.key = strings.TrimSpace(rest)
	}
	if header == "" && tokenOf(c.r) != "" {
		return c.session()
	}
	if header == "" {
		c.key = c.query.Get("api_key")
		if c.key == "" && c.e.Method == http.MethodPost {
			var err error
			network := c.s.stranger(c.w, c.r)
			if c.body, err = readBody(c.r, c.s.dialect.shares.Of(network), maxEventsBytes); err != nil {
				return key.Identity{}, err
			}
			c.key = braze.KeyIn(c.body.text())
		}
		header = "Bearer " + c.key
	}
	who, err := c.s.authority.identify(c.r.Context(), header)
	if errors.Is(err, errUnauthorized) {
		err = errBrazeKey
	}
	c.sender, c.bounded = who.ID, who.Bounded()
	if a, ok := c.w.(*answer); ok && err == nil {
		a.sender = who.ID
	}
	return who, err
}

// session is identify of a browser. A change of it is noted, before its body is read.
func (c *brazeCall) session() (key.Identity, error) {
	who, err := c.s.identify(c.w, c.r)
	c.sender, c.bounded = who.ID, who.Bounded()
	if err == nil && who.May(c.e.Permission) {
		err = c.s.noteChange(c.w, c.r, c.e.Permission)
	}
	return who, err
}

// refusal says in Braze's words what is wrong.
func (c *brazeCall) refusal(err error) braze.Reply {
	if refused, ok := errors.AsType[*tooFast](err); ok {
		after := refused.retryAfter()
		c.w.Header().Set("Retry-After", after)
		if c.taken.OK { // it is the key's own bound
			c.taken.Remaining = []string{"0"}
			c.taken.Reset = []string{strconv.FormatInt(c.started.Unix()+int64(math.Ceil(refused.after.Seconds()))+1, 10)}
		}
		return braze.Reply{Status: http.StatusTooManyRequests, Body: braze.ErrorBody(braze.RateLimited)}
	}
	if unread, ok := errors.AsType[*braze.UnreadError](err); ok {
		c.s.complain(c.w, unread)
	}
	taken, final := errors.AsType[*braze.TakenError](err)
	if final {
		c.s.complain(c.w, taken)
	}
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		c.s.logFailed(c.w, c.r, err)
		e = errInternal
	}
	if _, full := errors.AsType[*mail.WaitingFull](err); full || e.Code == sluice.CodeTooFast && c.w.Header().Get("Retry-After") == "" {
		c.w.Header().Set("Retry-After", waitingRetrySeconds)
	} else if e.Code == sluice.CodeUnavailable && !final {
		c.w.Header().Set("Retry-After", "1")
	}
	status := statusOf(e.Code)
	if special, ok := errors.AsType[*statusError](err); ok {
		status = special.status
	}
	if status == http.StatusRequestEntityTooLarge {
		c.release() // the memory of what was read
		c.body = nil
		drain(c.r)
	}
	return braze.Reply{Status: status, Body: braze.ErrorBody(e.Message)}
}

// brazeMessage is what a client of Braze's API reads of a refusal that none of
// its calls has made: another method, an unknown call. It also sets the headers
// that every reply has there. Empty: it is about a path of ours.
func (s *Server) brazeMessage(w http.ResponseWriter, r *http.Request, e *sluice.Error) string {
	limit, ok := s.dialect.calls[r.Pattern]
	if !ok {
		if e.Code != sluice.CodeNotFound || r.Pattern != "" && r.Pattern != "/" || strings.HasPrefix(r.URL.Path, "/v1/") {
			return ""
		}
		limit = braze.LimitOther
	}
	setLimits(w.Header(), s.dialect.limits.Look(limit, s.clock.Now()))
	if e.Code == sluice.CodeNotFound {
		return braze.NotFound
	}
	return e.Message
}

func setLimits(h http.Header, t braze.Taken) {
	h["X-RateLimit-Limit"], h["X-RateLimit-Remaining"], h["X-RateLimit-Reset"] = t.Limit, t.Remaining, t.Reset
}

// write writes a reply with the headers that all of them have. The names of
// headers are written as they are sent.
func (c *brazeCall) write(done braze.Reply) {
	h := c.w.Header()
	h["Content-Type"] = headerJSON
	setLimits(h, c.taken)
	sum := fnv.New64a()
	_, _ = sum.Write(done.Body)
	values := []string{
		strconv.FormatFloat(c.s.clock.Now().Sub(c.started).Seconds(), 'f', 6, 64),
		`W/"` + strconv.FormatUint(sum.Sum64(), 16) + `"`,
	}
	h["X-Runtime"], h["ETag"] = values[0:1:1], values[1:2:2]
	c.w.WriteHeader(done.Status)
	c.s.write(c.w, done.Body)
}
