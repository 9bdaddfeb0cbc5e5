package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/api/braze"
	"sluice/lib/connlimit"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/user/consent"
	"sluice/user/profile"
)

// Bounds of double opt-in, beside those of all requests.
const (
	optInPath = "/v1/optin/{form}"

	// maxOptInBytes bounds the bodies of its requests.
	maxOptInBytes = 8 << 10

	// preflightSeconds is how long a browser believes what a form allows.
	preflightSeconds = "600"
)

// Kinds of bodies.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// asked is the answer of POST /v1/optin/{form}. It is the same for everybody;
// ConfirmURL is for who has a key.
type asked struct {
	Accepted   bool   `json:"accepted"`
	ConfirmURL string `json:"confirm_url,omitempty"`
	Expires    string `json:"expires,omitempty"`
}

// optIn is POST /v1/optin/{form}, and what browsers ask before it.
func (s *Server) optIn(w http.ResponseWriter, r *http.Request) {
	done, err := s.ask(w, r)
	switch {
	case err != nil:
		s.writeError(w, r, err)
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case done.ConfirmURL == "" && prefersPage(r):
		s.writePage(w, http.StatusAccepted, "", confirmPage{Title: "Almost done",
			Text: "If the address was right, a mail with a link will come to it. Follow the link to confirm."})
	default:
		s.writeJSON(w, http.StatusAccepted, done)
	}
}

// prefersPage tells forms that a browser sends by itself from scripts.
func prefersPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ask takes in a request of a form.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) (asked, error) {
	done := asked{Accepted: true}
	service := s.program.Services().Consent
	if service == nil {
		return done, errNotRunning
	}
	form := service.Form(r.PathValue("form"))
	if form == nil {
		return done, refusal(sluice.CodeNotFound, "there is no such form; forms are in the setting optin")
	}
	if err := allowOrigin(w.Header(), r, form); err != nil || r.Method == http.MethodOptions {
		return done, err
	}
	request := &consent.Request{Form: form, IP: connlimit.Sender(r, s.proxies)}
	if r.Header.Get("Authorization") != "" {
		who, err := s.admitted(w, r, key.OptInWrite)
		if err != nil {
			return done, err
		}
		s.rates.spend(who, 1)
		request.Trusted = true
	}
	honest, err := readRequest(w, r, request)
	if err != nil || !honest {
		return done, err
	}
	link, err := s.record(w, func(ctx context.Context, to consent.Writer) (consent.Link, error) {
		return service.Ask(ctx, to, request)
	})
	if often, ok := errors.AsType[*consent.TooOftenError](err); ok {
		if !often.Sender && !request.Trusted {
			return done, nil // that somebody asked for this address is nobody's business
		}
		return done, &tooFast{after: often.Wait, why: often.Error()}
	}
	if err == nil && request.Trusted {
		done.ConfirmURL, done.Expires = link.URL, link.Expires.UTC().Format(time.RFC3339)
	}
	return done, err
}

// record has something written by the intake.
func (s *Server) record(w http.ResponseWriter, write func(context.Context, consent.Writer) (consent.Link, error)) (consent.Link, error) {
	target := s.program.Services().Intake
	if target == nil {
		return consent.Link{}, errNotRunning
	}
	return s.recordBy(w, s.intake.slots, target, write)
}

// recordBy has something written by another writer, which has slots of its own.
func (s *Server) recordBy(w http.ResponseWriter, slots chan struct{}, target consent.Writer, write func(context.Context, consent.Writer) (consent.Link, error)) (consent.Link, error) {
	ctx := s.intake.waits.Context(s.clock.Now())
	if err := takeSlot(ctx, slots); err != nil {
		return consent.Link{}, err
	}
	defer func() { <-slots }()
	link, err := write(ctx, target)
	if _, ok := errors.AsType[*consent.TooOftenError](err); err != nil && !ok {
		err = s.notAccepted(w, err, "Send it again: a repeat does no harm")
	}
	return link, err
}

// allowOrigin lets a form's own pages ask by script (Fetch Standard, 3.2), and
// no others. Without origins nothing is said, and no script of another site sees
// an answer.
func allowOrigin(h http.Header, r *http.Request, form *consent.Form) error {
	origin := r.Header.Get("Origin")
	if len(form.Origins) == 0 || origin == "" {
		return nil
	}
	h.Set("Vary", "Origin")
	if !slices.Contains(form.Origins, origin) {
		return refusal(sluice.CodeForbidden, "this form may not be used from this origin; the setting origins of the form lists those that may")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Content-Type")
		h.Set("Access-Control-Max-Age", preflightSeconds)
	}
	return nil
}

// readRequest reads what is asked for; not honest: only a machine fills in a
// field that people do not see.
func readRequest(w http.ResponseWriter, r *http.Request, request *consent.Request) (honest bool, err error) {
	body, err := readSmall(w, r, maxOptInBytes)
	if err != nil {
		return false, err
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var fields []profile.Value
	switch kind {
	case typeJSON:
		fields, err = jsonFields(body)
	case typeForm:
		fields, err = formFields(body)
	default:
		err = &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Type is not understood; send %s or %s", typeForm, typeJSON)}
	}
	if err != nil {
		return false, err
	}
	honest = true
	members := make(map[string]json.RawMessage)
	for _, f := range fields {
		switch {
		case f.Name == "email":
			if json.Unmarshal([]byte(f.Raw), &request.Email) != nil {
				return false, refusal(sluice.CodeInvalid, "email is no text")
			}
		case f.Name == request.Form.Honeypot && f.Name != "":
			honest = honest && (f.Raw == `""` || f.Raw == "null")
		case slices.Contains(request.Form.Fields, f.Name):
			members[f.Name] = json.RawMessage(f.Raw)
		}
	}
	if len(members) > 0 {
		text, err := json.Marshal(members)
		if err != nil {
			return false, err
		}
		request.Attributes = string(text)
	}
	return honest || request.Trusted, nil
}

// readSmall reads a body of at most so many bytes that anybody may send, and that is not
// packed. With an error it returns what has come of it.
func readSmall(w http.ResponseWriter, r *http.Request, most int) (string, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return "", &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Encoding is not understood here; send none")}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	connlimit.Busy(r)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return string(body), errLargerThan(most)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return string(body), &statusError{http.StatusRequestTimeout, refusal(sluice.CodeInvalid, "the body did not arrive in time; nothing of it was taken in")}
	}
	if err != nil {
		return string(body), refusal(sluice.CodeInvalid, "the body cannot be read to its end; nothing of it was taken in")
	}
	return string(body), nil
}

// jsonFields reads the members of an object: texts, numbers, true and false.
func jsonFields(body string) (fields []profile.Value, err error) {
	if v, err := jsonscan.Scan(body); err != nil || v.Kind != jsonscan.Object {
		return nil, refusal(sluice.CodeInvalid, "the body is no JSON object")
	}
	m := jsonscan.Read(body)
	for m.Next() {
		switch v := m.Value; v.Kind {
		case jsonscan.Object, jsonscan.Array:
			return nil, refusal(sluice.CodeInvalid, "field %.64q is %s; want a text, a number, true or false", m.Key, v.Kind)
		case jsonscan.String:
			if err := plainText(m.Key, v.Text()); err != nil {
				return nil, err
			}
			fields = append(fields, profile.Value{Name: m.Key, Raw: profile.Quoted(v.Text())})
		default:
			if !braze.NumbersFit(v.Raw) {
				return nil, refusal(sluice.CodeInvalid, "field %.64q is a number that is too large", m.Key)
			}
			fields = append(fields, profile.Value{Name: m.Key, Raw: v.Raw})
		}
	}
	if err := m.Err(); err != nil {
		return nil, refusal(sluice.CodeInvalid, "%s", err)
	}
	return fields, nil
}

// formFields reads what a browser sends of a form; fields that were left empty
// were not given.
func formFields(body string) (fields []profile.Value, err error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "the body is no form")
	}
	for name, all := range values {
		if len(all) != 1 {
			return nil, refusal(sluice.CodeInvalid, "field %.64q is there %s times", name, strconv.Itoa(len(all)))
		}
		if err := plainText(name, all[0]); err != nil {
			return nil, err
		}
		if all[0] != "" {
			fields = append(fields, profile.Value{Name: name, Raw: profile.Quoted(all[0])})
		}
	}
	return fields, nil
}

// plainText refuses what no text of a form has: a line break in it may become a
// header of a mail.
func plainText(field, text string) error {
	for _, r := range text {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return refusal(sluice.CodeInvalid, "field %.64q has a line break, another control character, or is not UTF-8", field)
		}
	}
	return nil
}
