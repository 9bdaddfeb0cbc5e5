package api

import (
	"context"
	"net/http"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/key"
)

// The gate: what every request passes before its body is understood, the cheapest
// first. Its key, the permission, the key's rate, and for a body a buffer, a slot and
// the unpacking. Calls of Braze's API (braze.go), posts of providers (hooks.go) and small
// forms (optin.go) have doors of their own, and read their bodies as bounded.

// admitted returns who sent a request, if that key has a permission and has not
// used up what it may send.
func (s *Server) admitted(w http.ResponseWriter, r *http.Request, p key.Permission) (key.Identity, error) {
	who, err := s.allowed(w, r, p)
	if err == nil {
		err = s.rates.admit(who)
	}
	return who, err
}

// allowed returns who sent a request, if that key has a permission. What a session changes
// is noted.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, p key.Permission) (key.Identity, error) {
	who, err := s.permitted(w, r, p)
	if err != nil {
		return who, err
	}
	return who, s.noteChange(w, r, p)
}

// permitted is allowed for what is a part of a change that was noted.
func (s *Server) permitted(w http.ResponseWriter, r *http.Request, p key.Permission) (key.Identity, error) {
	who, err := s.identify(w, r)
	if err != nil {
		return who, err
	}
	if a, ok := w.(*answer); ok {
		a.sender = who.ID
	}
	if !who.May(p) {
		return who, refusal(sluice.CodeForbidden, lacks(w), p)
	}
	return who, nil
}

// lacks says of a key, or of an account, that it may not do what is asked.
func lacks(w http.ResponseWriter) string {
	if a, ok := w.(*answer); ok && a.account != nil {
		return "your role " + a.account.Role + " may not do that: it lacks the permission %s; an admin can give you another role"
	}
	return "this key may not do that: it lacks the permission %s; `sluice key create --permission` makes another"
}

// takeSlot waits for its turn, not for long.
func takeSlot(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(slotWait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return errBusy
}

// takeAny takes a slot if one is free. what is being done by those who have them is told
// if none is; done gives it back.
func takeAny(slots chan struct{}, what string) (done func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, refusal(sluice.CodeUnavailable, "%d %s, and no more are at a time; ask again", cap(slots), what)
	}
}

// held is the body of a request in memory, and the slot that the request has.
type held struct {
	body  *buffer
	slots chan struct{} // nil: it needs none
}

// text is the body.
func (h held) text() string { return h.body.text() }

// release gives the memory and the slot back.
func (h held) release() {
	h.body.release()
	if h.slots != nil {
		<-h.slots
	}
}

// hold reads a request's body of at most so many bytes into its sender's share of the
// memory, waits for a slot unless slots is nil, and unpacks the body. It reads before it
// waits, so that slow clients keep nobody out. After an error nothing is held; else the
// caller releases it. ctx ends acceptTimeout after the body has come, or with the request
// if it needs no slot.
func (s *Server) hold(r *http.Request, who key.Identity, slots chan struct{}, most int) (ctx context.Context, h held, err error) {
	body, err := readBody(r, s.intake.shares.Of(who.ID), most)
	if err != nil {
		body.release()
		return nil, held{}, err
	}
	connlimit.Busy(r)
	if ctx = r.Context(); slots != nil {
		ctx = s.intake.waits.Context(s.clock.Now())
	}
	h, err = s.unpacked(ctx, r, body, slots)
	return ctx, h, err
}

// unpacked is hold of a body that was read. It takes the body over, which may be nil.
func (s *Server) unpacked(ctx context.Context, r *http.Request, body *buffer, slots chan struct{}) (held, error) {
	if slots != nil {
		if err := takeSlot(ctx, slots); err != nil {
			body.release()
			return held{}, err
		}
	}
	h := held{body, slots}
	if body == nil {
		return h, nil
	}
	var err error
	if h.body, err = s.intake.unpacker.unpack(ctx, body, r.Header.Get("Content-Encoding")); err != nil {
		h.release()
		return held{}, err
	}
	return h, nil
}

// holdJSON is hold of a JSON body of at most maxBytes, of a request without a query.
func (s *Server) holdJSON(r *http.Request, who key.Identity, maxBytes int) (held, error) {
	if err := wantJSON(r); err != nil {
		return held{}, err
	}
	_, h, err := s.hold(r, who, nil, maxBytes)
	return h, err
}

// wantJSON refuses a request that has a query, or a body that is not JSON.
func wantJSON(r *http.Request) error {
	if _, err := readQuery(r, nil); err != nil {
		return err
	}
	if f, err := formOf(r.Header.Get("Content-Type")); err != nil || f != formJSON {
		return &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Type is not understood; send application/json")}
	}
	return nil
}
