package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/key"
	"sluice/lib/netaddr"
	"sluice/store"
)

// Sessions are the second kind of caller, beside keys: a person in a browser, who has
// signed in to the dashboard. Behind the gate both are a key.Identity, and the same
// permissions decide.
//
// A browser sends its cookie whichever page asked it to. So every change by a session has
// an Origin, which must be ours; SameSite=Lax keeps the cookie off other sites' requests
// as well. Reads answer with JSON that no other site can read.
//
// Behind https the cookie is __Host-sluice, with Secure: no other host and no plain http
// can set or read it (RFC 6265bis, 4.1.3.2). A browser on this machine has it under a
// plain name, as Secure would keep it from being sent. Any other plain http is refused:
// who listens on the way would have the session.

// Paths of signing in.
const (
	sessionPath = "/v1/session"
	setupPath   = "/v1/setup"

	maxSignInBytes = 4 << 10
	auditTimeout   = 2 * time.Second
	maxAuditDetail = store.MaxAuditText // bytes

	cookieSecure = "__Host-sluice"
	cookiePlain  = "sluice"
)

// Accounts sign people in. An account.Service is one.
type Accounts interface {
	Session(ctx context.Context, text string) (key.Identity, store.Session, error)
	SignIn(ctx context.Context, name, password string, from netip.Addr) (session string, a store.Account, err error)
	First(ctx context.Context, token, name, password string, from netip.Addr) (session string, a store.Account, err error)
	ChangeOwn(ctx context.Context, own store.Account, old, password string, from netip.Addr) (session string, a store.Account, err error)
	SignOut(ctx context.Context, text string) error
	Any(ctx context.Context) (bool, error)

	Add(ctx context.Context, name, role, password string) (store.Account, error)
	Change(ctx context.Context, id, role, password string) error
	Remove(ctx context.Context, id string) error
	EndSessions(ctx context.Context, id string) error
}

// errPlainHTTP explains why nobody signs in by plain http from elsewhere.
var errPlainHTTP = refusal(sluice.CodeForbidden, "signing in by plain http from another machine would show the session to all who listen on the way; "+
	"put a proxy with https before this server (docs/operate.md), or use a tunnel: ssh -L 8019:127.0.0.1:8019 HOST, and then http://127.0.0.1:8019")

// isHTTPS reports whether the browser speaks https, to a proxy that says so. A caller who
// lies about it harms nobody else: it gets a cookie that its browser sends by https only.
func isHTTPS(r *http.Request) bool {
	said := r.Header.Get("X-Forwarded-Proto")
	last := said[strings.LastIndexByte(said, ',')+1:]
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(last), "https")
}

// isLocalHost reports whether a plainHost is a name of loopback: what a browser sends to
// it stays on its machine.
func isLocalHost(host string) bool {
	return strings.HasSuffix(host, ".localhost") || netaddr.IsLoopback(host)
}

// cookieOf returns the name of the cookie of a request's way, or why none is taken.
func cookieOf(r *http.Request) (name string, err error) {
	switch {
	case isHTTPS(r):
		return cookieSecure, nil
	case isLocalHost(plainHost(r.Host)):
		return cookiePlain, nil
	}
	return "", errPlainHTTP
}

// checkOrigin refuses a change that a page of another site has asked for. Browsers send
// Origin with every request that is not GET or HEAD (Fetch, 3.2).
func checkOrigin(r *http.Request) error {
	origin, err := url.Parse(r.Header.Get("Origin"))
	scheme := "http"
	if isHTTPS(r) {
		scheme = "https"
	}
	if err != nil || origin.Scheme != scheme || origin.Host == "" || !strings.EqualFold(origin.Host, r.Host) {
		return refusal(sluice.CodeForbidden, "this request does not come from this dashboard (Origin %.100q): a proxy before it must pass on Host and set X-Forwarded-Proto", r.Header.Get("Origin"))
	}
	return nil
}

// tokenOf returns what a browser holds; empty: nothing.
func tokenOf(r *http.Request) string {
	name, err := cookieOf(r)
	if err != nil {
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// identify returns whose a request is: that of a key in its header, else of a session.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) (key.Identity, error) {
	header := r.Header.Get("Authorization")
	token := tokenOf(r)
	if header != "" || token == "" {
		return s.authority.identify(r.Context(), header)
	}
	accounts := s.program.Services().Accounts
	if accounts == nil {
		return key.Identity{}, errNotRunning
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := checkOrigin(r); err != nil {
			return key.Identity{}, err
		}
	}
	who, session, err := accounts.Session(r.Context(), token)
	if a, ok := w.(*answer); ok && err == nil {
		a.account = &session.Account
	}
	return who, err
}

// noteChange writes into the audit log what a session is about to change; nothing of a
// key, and of what only reads. What cannot be noted is not done.
func (s *Server) noteChange(w http.ResponseWriter, r *http.Request, p key.Permission) error {
	a, ok := w.(*answer)
	if !ok || a.account == nil || a.audit != "" || r.Method == http.MethodGet || r.Method == http.MethodHead || key.Reads(p) {
		return nil
	}
	log := s.program.Services().AccountStore
	if log == nil {
		return errNotRunning
	}
	now := s.clock.Now()
	e := store.AuditEntry{ID: sluice.NewUUID(now), TimeMillis: now.UnixMilli(), Account: a.account.ID, Name: a.account.Name, Method: r.Method, Path: auditPathOf(r.URL)}
	ctx, cancel := context.WithTimeout(r.Context(), auditTimeout)
	defer cancel()
	if err := log.AddAudit(ctx, e); err != nil {
		return s.storeError(w, err, "nothing was changed, as it could not be noted in the audit log; try again")
	}
	a.audit = e.ID
	return nil
}

// clip returns the beginning of a text for the audit log, without what is no UTF-8. It is
// a copy: the log is written after the body's memory has gone to other requests.
func clip(text string) string { return clipTo(text, maxAuditDetail) }

// clipTo is clip to so many bytes.
func clipTo(text string, most int) string {
	if len(text) > most {
		text = text[:wordBefore(text, most)]
	}
	return strings.Clone(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", ""))
}

// wordBefore returns where a text may be cut, at a place or before it: no word is cut, as
// an erasure would not find the person whom a part of an address names. Words that are
// longer than addresses are cut.
func wordBefore(text string, at int) int {
	for i := at; i > 0 && at-i <= sluice.MaxEmailBytes; i-- {
		if text[i] <= ' ' || strings.IndexByte(`"'<>(),;:[]{}`, text[i]) >= 0 {
			return i
		}
	}
	return at
}

// finishChange adds to the audit log how a change was answered, unless there was none.
func (s *Server) finishChange(a *answer, r *http.Request) {
	log := s.program.Services().AccountStore
	if a.audit == "" || log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	if err := log.FinishAudit(ctx, store.AuditEntry{ID: a.audit, Status: max(a.status, http.StatusOK), Detail: a.detail, Before: a.before, After: a.after}); err != nil {
		s.log.Warn("the answer of a change is not in the audit log", "id", a.id, "error", err)
	}
}

// sessionShown is who somebody is.
type sessionShown struct {
	SignedIn    bool     `json:"signed_in"`
	Setup       bool     `json:"setup"`
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name,omitempty"`
	Role        string   `json:"role,omitempty"`
	Permissions []string `json:"permissions"`
	Ends        string   `json:"ends,omitempty"`
	Version     string   `json:"version,omitempty"`
}

// session is GET /v1/session.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	shown := sessionShown{Permissions: []string{}}
	_, err := readQuery(r, nil)
	if err == nil && s.program.Services() == NotRunning {
		err = errNotRunning
	}
	if err == nil {
		_, session, no := s.program.Services().Accounts.Session(r.Context(), tokenOf(r))
		switch e, isOurs := no.(*sluice.Error); {
		case no == nil:
			a := &session.Account
			shown = sessionShown{true, false, a.ID, a.Name, a.Role, key.PermissionsOf(a.Role), timeText(session.EndMillis), s.version}
		case !isOurs || e.Code != sluice.CodeUnauthorized:
			err = no
		default:
			var there bool
			there, err = s.program.Services().Accounts.Any(r.Context())
			shown.Setup = err == nil && !there
		}
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.writeJSON(w, http.StatusOK, shown)
}

// signsIn answers POST and PUT /v1/session, and /v1/setup: what begins a session.
func (s *Server) signsIn(w http.ResponseWriter, r *http.Request, fields []field, begin func(context.Context, Accounts, netip.Addr) (string, store.Account, error)) {
	err := s.readSignIn(w, r, fields)
	cookie, plain := cookieOf(r)
	if err == nil {
		err = plain
	}
	if err == nil {
		err = checkOrigin(r)
	}
	services := s.program.Services()
	if err == nil && services == NotRunning {
		err = errNotRunning
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	token, a, err := begin(r.Context(), services.Accounts, connlimit.Sender(r, s.proxies))
	if from, fresh := s.unnamed.note(r, s.proxies, err == nil, s.clock.Now()); fresh {
		s.log.Warn("people sign in through a proxy that is not in the setting proxies: they count as one address, and a stranger's wrong passwords lock all of them out", "id", idOf(w), "from", from)
	}
	if err != nil {
		s.writeError(w, r, s.storeError(w, err, "try again"))
		return
	}
	s.endReplaced(w, r, services.Accounts)
	setCookie(w, cookie, token, 0)
	s.log.Info("signed in", "id", idOf(w), "account", a.ID, "role", a.Role)
	s.writeJSON(w, http.StatusOK, sessionShown{SignedIn: true, ID: a.ID, Name: a.Name, Role: a.Role, Permissions: key.PermissionsOf(a.Role), Version: s.version})
}

// endReplaced ends the session that the browser has until now, which the new cookie takes
// the place of: nobody could sign it out any more. If that fails it ends with its time.
func (s *Server) endReplaced(w http.ResponseWriter, r *http.Request, accounts Accounts) {
	old := tokenOf(r)
	if old == "" {
		return
	}
	if err := accounts.SignOut(r.Context(), old); err != nil {
		s.log.Warn("a session that another one takes the place of goes on until its end", "id", idOf(w), "error", err)
	}
}

// readSignIn reads a body of texts, all of which must be there. Anybody may send one, so it
// takes none of the memory that the bodies of keys share, and no place at the unpacker.
func (s *Server) readSignIn(w http.ResponseWriter, r *http.Request, fields []field) error {
	if err := wantJSON(r); err != nil {
		return err
	}
	s.stranger(w, r)
	body, err := readSmall(w, r, maxSignInBytes)
	if err != nil {
		return err
	}
	given, err := decode(body, fields...)
	for _, f := range fields {
		if _, ok := given[f.name]; !ok && err == nil {
			err = refusal(sluice.CodeInvalid, "%s is missing", f.name)
		}
	}
	return err
}

// setCookie gives the browser a cookie. It ends with the browser's session, or with that
// of the store; maxAge < 0 takes it back.
func setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: name == cookieSecure, SameSite: http.SameSiteLaxMode})
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	var name, password string
	s.signsIn(w, r, []field{{"name", &name}, {"password", &password}}, func(ctx context.Context, a Accounts, from netip.Addr) (string, store.Account, error) {
		return a.SignIn(ctx, name, password, from)
	})
}

// setup is POST /v1/setup: the first account.
func (s *Server) setup(w http.ResponseWriter, r *http.Request) {
	var token, name, password string
	s.signsIn(w, r, []field{{"token", &token}, {"name", &name}, {"password", &password}}, func(ctx context.Context, a Accounts, from netip.Addr) (string, store.Account, error) {
		return a.First(ctx, token, name, password, from)
	})
}

// changePassword is PUT /v1/session: a new password for who is signed in, and a new
// session, as all of the account end.
func (s *Server) changePassword(w http.ResponseWriter, r *http.Request) {
	var old, password string
	s.signsIn(w, r, []field{{"password", &old}, {"new_password", &password}}, func(ctx context.Context, a Accounts, from netip.Addr) (string, store.Account, error) {
		who, session, err := a.Session(ctx, tokenOf(r))
		if err != nil {
			return "", session.Account, err
		}
		if noted, ok := w.(*answer); ok {
			noted.account, noted.sender, noted.detail = &session.Account, who.ID, "a new password of its own"
		}
		if err := s.noteChange(w, r, key.AccountsManage); err != nil {
			return "", session.Account, err
		}
		return a.ChangeOwn(ctx, session.Account, old, password, from)
	})
}

// signOut is DELETE /v1/session. Without a session it is done already.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	token := tokenOf(r)
	if token != "" {
		err := checkOrigin(r)
		if services := s.program.Services(); err == nil && services == NotRunning {
			err = errNotRunning
		} else if err == nil {
			err = s.endSession(w, r, services.Accounts, token)
		}
		if err != nil {
			s.writeError(w, r, s.storeError(w, err, "try again"))
			return
		}
		name, _ := cookieOf(r)
		setCookie(w, name, "", -1)
	}
	w.WriteHeader(http.StatusNoContent)
}

// endSession ends a session, and logs whose it was. Of one that has ended already, or was
// made up, there is nothing to say.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request, accounts Accounts, token string) error {
	_, session, known := accounts.Session(r.Context(), token)
	err := accounts.SignOut(r.Context(), token)
	if err == nil && known == nil {
		s.log.Info("signed out", "id", idOf(w), "account", session.Account.ID, "role", session.Account.Role)
	}
	return err
}
