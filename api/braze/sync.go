package braze

import (
	"context"
	"net/http"
	"time"

	"sluice/user"
	"sluice/user/users"
)

// syncWait bounds how long a call waits to see what it has written.
const syncWait = 10 * time.Second

// trackSync is POST /users/track/sync: one object, and the user as it is when
// the object has been applied.
func trackSync(ctx context.Context, r *Request) (Reply, error) {
	t := trackings.Get().(*tracking)
	defer t.giveBack()
	done, err := t.answer(ctx, r, 1)
	if err != nil || done.Status != http.StatusCreated {
		return done, err
	}
	keys := []user.Key{t.updates[0].Key}
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	if err := r.Applied(ctx, keys); err != nil {
		return Reply{}, &TakenError{err}
	}
	found, err := r.find(ctx, keys)
	if err != nil {
		return Reply{}, &TakenError{err}
	}
	b := []byte(`{"users":[`)
	if p, ok := meant(found.by[keys[0]]); ok {
		m := members{b: append(b, '{')}
		m.add("custom_attributes", orElse(customText(p.Profile.Custom), "{}"))
		m.add("custom_events", orElse(talliesText(p.Profile.Events, "name"), "[]"))
		m.add("purchase_events", orElse(talliesText(p.Profile.Purchases, "product_id"), "[]"))
		b = append(m.b, '}')
	}
	done.Body = append(t.appendErrors(append(b, ']')), `,"message":"success"}`...)
	return done, nil
}

// meant returns the user that an update of an address was about. Of those who
// have the address, one with an external id goes before one without, then the
// one written last.
func meant(found []users.Person) (best users.Person, ok bool) {
	for _, p := range found {
		named, known := p.Profile.ExternalID != "", ok && best.Profile.ExternalID != ""
		if !ok || named && !known || named == known && p.Row.UpdatedMillis > best.Row.UpdatedMillis {
			best, ok = p, true
		}
	}
	return best, ok
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
