package api

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/mail"
	"sluice/store"
	"sluice/track/link"
	"sluice/user"
	"sluice/user/consent"
	"sluice/user/profile"
	"sluice/user/users"
)

// The page behind the link of a mail. A GET changes nothing (RFC 8058, 3.2: scanners
// fetch links). It has a button that does what the button of a mailbox does, and what
// the person may choose: all marketing mail, and each public subscription group.
//
// The form posts what it showed as chosen ("was") and what is chosen now ("on"). Only
// what differs is written: a page that was left open undoes nothing that was chosen
// elsewhere meanwhile, and a group that nobody touched gets no state. Groups are named
// by marks, so that their ids stay inside.
//
// A group counts as chosen unless the person has left it, as journeys take it: mail of
// a group goes to all who have not left. Of several users with the address, what one
// has left counts as left, as in Braze's calls.

var (
	//go:embed preferences.html
	preferencesHTML string

	preferencesTemplate = newPage("preferences", preferencesHTML)
)

// Bounds of the page.
const (
	groupsFresh  = 5 * time.Second // for how long groups that were read are shown
	groupsWithin = time.Second     // how long a page waits for them
	groupsAgain  = time.Second     // after what time they are asked for again that did not come
	statesWithin = 2 * time.Second // and for the states of its person

	parallelStates = 8 // people who are looked up at once

	// parallelChoices is how many choices are written at once. Slots of the intake are
	// held for as long as Redis may take; a choice waits 250 ms, and goes to a file.
	parallelChoices = 512

	// mailMark names all marketing mail in the form. No group has this mark: it is
	// shorter than theirs.
	mailMark = "mail"
)

// Values of the field "do" of the forms. Without one it is a click of a mail program.
const (
	doSave = "save"
	doAll  = "all"
)

// Choices makes durable what people choose on the pages of mails. Away reports whether
// Redis does not answer: then nothing is in force soon. land.Choices is one.
type Choices interface {
	consent.Writer
	Away() bool
}

// preferencesView is what the page shows.
type preferencesView struct {
	Title, Text    string
	Button, Action string
	Known          bool // what the person has chosen is known, and may be changed
	Mail           choiceShown
	Groups         []choiceShown
	Again          bool // there is a link to the page
}

// choiceShown is one thing to choose.
type choiceShown struct {
	Name, Description, Mark string
	On                      bool
	Stays                   bool // as it is, whatever is chosen here
}

// preferences answers for the pages below link.PagePath.
type preferences struct {
	s     *Server
	to    Choices
	looks chan struct{}
	slots chan struct{} // of choices that are being written

	mu     sync.Mutex
	groups []store.Group // public ones
	read   time.Time     // when they were, or should have been
	known  bool          // they were read once
	said   time.Time     // when a failure was logged
}

func newPreferences(s *Server, to Choices) *preferences {
	return &preferences{s: s, to: to, looks: make(chan struct{}, parallelStates), slots: make(chan struct{}, parallelChoices)}
}

// public returns the public groups. While the database is away they are those that were
// known before; known: there is a list at all.
func (p *preferences) public(w http.ResponseWriter, r *http.Request, from store.GroupStore) (groups []store.Group, known bool) {
	now := p.s.clock.Now()
	p.mu.Lock()
	stale := now.Sub(p.read) >= groupsFresh || now.Before(p.read)
	if stale {
		p.read = now // others show what there is meanwhile
	}
	groups, known = p.groups, p.known
	p.mu.Unlock()
	if !stale || from == nil {
		return groups, known
	}
	// They are read for all visitors: one who has gone breaks off nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), groupsWithin)
	defer stop()
	all, err := from.Groups(ctx)
	if err != nil {
		if p.mayLog() {
			p.s.log.Warn("the subscription groups cannot be read: the page of mails shows those known before", "id", idOf(w), "error", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.read = p.s.clock.Now().Add(groupsAgain - groupsFresh)
		return p.groups, p.known
	}
	groups = slices.DeleteFunc(all, func(g store.Group) bool { return !g.Public })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups, p.known = groups, true
	return groups, true
}

// mayLog reports whether a failure may be logged, once in complainEvery: there may be
// thousands of visitors a second.
func (p *preferences) mayLog() bool {
	now := p.s.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := now.Sub(p.said); since >= 0 && since < complainEvery {
		return false
	}
	p.said = now
	return true
}

// markOf names a group in the form.
func markOf(group string) string {
	hash := sha256.Sum256([]byte(group))
	return base64.RawURLEncoding.EncodeToString(hash[:6])
}

// masked is an address as the page shows it. A link may be passed on with its mail, and
// says no more of its recipient than it must.
func masked(address string) string {
	at := max(0, strings.LastIndexByte(address, '@'))
	_, size := utf8.DecodeRuneInString(address[:at])
	return address[:size] + "…" + address[at:]
}

// states returns what those who have an address have chosen; false: it is not known now.
func (p *preferences) states(w http.ResponseWriter, r *http.Request, q *Services, address string) (people []*profile.Profile, ok bool) {
	ctx, stop := context.WithTimeout(r.Context(), statesWithin)
	defer stop()
	if takeSlot(ctx, p.looks) != nil {
		return nil, false
	}
	defer func() { <-p.looks }()
	key := user.Key{Kind: user.KeyEmail, Name: address}
	found, _, err := users.Find(ctx, q.Users, []user.Key{key})
	if err != nil {
		if r.Context().Err() == nil && p.mayLog() { // else nobody waits for it any more
			p.s.log.Warn("what somebody has chosen cannot be read: the page of a mail shows its button alone", "id", idOf(w), "error", err)
		}
		return nil, false
	}
	for _, x := range found[key] {
		people = append(people, x.Profile)
	}
	return people, true
}

// get shows the page.
func (p *preferences) get(w http.ResponseWriter, r *http.Request, q *Services, u *consent.Unsubscription, action string) {
	view := preferencesView{Title: "Unsubscribe?", Action: action, Button: "Unsubscribe",
		Text: "Press the button, and no more newsletters and offers will be sent to " + masked(u.Email) + "."}
	groups, _ := p.public(w, r, q.Groups)
	if u.Group != "" {
		view.Text = "Press the button, and no more mail of this kind will be sent to " + masked(u.Email) + "."
		if i := slices.IndexFunc(groups, func(g store.Group) bool { return g.ID == u.Group }); i >= 0 {
			view.Button = "Unsubscribe from " + groups[i].Name
		}
	}
	people, known := p.states(w, r, q, u.Email)
	if view.Known = known; known {
		view.Mail = allMail(q.Consent, u.Email, people)
		full := slices.ContainsFunc(people, (*profile.Profile).LeavesNoMore)
		for i := range groups {
			g := &groups[i]
			left := slices.ContainsFunc(people, func(x *profile.Profile) bool { return x.Left(g.ID) })
			c := choiceShown{Name: g.Name, Description: g.Description, Mark: markOf(g.ID), On: !left}
			if c.Stays = c.On && full; c.Stays {
				c.Description = "You have left so many others that this page cannot leave this one alone. “Unsubscribe from all” stops it."
			}
			view.Groups = append(view.Groups, c)
		}
	}
	p.show(w, http.StatusOK, &view)
}

// allMail is the choice of marketing mail as a whole, for those who have an address.
func allMail(service *consent.Service, address string, people []*profile.Profile) choiceShown {
	c := choiceShown{Name: "Newsletters and offers", Description: "Without this none of them is sent, whatever else is chosen. Mail about orders and accounts goes on.", Mark: mailMark}
	stopped := false
	if service.Stopped != nil {
		stopped, c.Stays = service.Stopped(address)
	}
	c.On = !stopped && !slices.ContainsFunc(people, func(x *profile.Profile) bool { return x.EmailState() == "unsubscribed" })
	if c.Stays { // a complaint, mail that came back, an entry of the sender
		c.Description = "Mail to this address has been stopped, and this page cannot start it again."
	}
	return c
}

// show answers with a page. Its forms lead to where it came from.
func (p *preferences) show(w http.ResponseWriter, status int, view *preferencesView) {
	p.s.makePage(w, status, preferencesTemplate, formsHere, view)
}

// readForm reads the form of the page; nil: the body is none of it. What is wrong with a
// body is no reason to go on mailing (RFC 8058, 3.2). But one that begins as choices do,
// and whose end is missing, is none: it is an error.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	body, err := readSmall(w, r, maxOptInBytes)
	if kind, _, badType := mime.ParseMediaType(r.Header.Get("Content-Type")); badType != nil || kind != typeForm {
		return nil, nil
	}
	if err != nil && strings.HasPrefix(body, "do="+doSave) {
		return nil, err
	}
	values, bad := url.ParseQuery(body)
	if err != nil || bad != nil || values.Has("List-Unsubscribe") || values.Get("do") != doSave && values.Get("do") != doAll {
		return nil, nil
	}
	return values, nil
}

// errOldPage says that a form names what is not there any more.
var errOldPage = refusal(sluice.CodeConflict, "What can be chosen has changed meanwhile. Please open the link in your mail again.")

// choice returns what a form chooses.
func (p *preferences) choice(w http.ResponseWriter, r *http.Request, q *Services, values url.Values) (*consent.Choice, error) {
	c := &consent.Choice{By: consent.ByPage, Groups: make(map[string]bool)}
	if values.Get("do") == doAll {
		c.Mail = new(false)
		return c, nil
	}
	differs := func(mark string) (on, differs bool) {
		on = slices.Contains(values["on"], mark)
		return on, on != slices.Contains(values["was"], mark)
	}
	if on, changed := differs(mailMark); changed {
		c.Mail = &on
	}
	groups, known := p.public(w, r, q.Groups)
	for _, mark := range values["s"] {
		on, changed := differs(mark)
		if !changed {
			continue
		}
		i := slices.IndexFunc(groups, func(g store.Group) bool { return markOf(g.ID) == mark })
		switch {
		case i >= 0:
			c.Groups[groups[i].ID] = on
		case !known:
			return nil, refusal(sluice.CodeUnavailable, "the subscription groups cannot be read")
		default:
			return nil, errOldPage
		}
	}
	return c, nil
}

var badChoice = badLink{failed: confirmPage{Title: "Your choices are not saved yet", Text: "Please try again in a minute."}}

// post carries out what a mail program or the page asks for.
func (p *preferences) post(w http.ResponseWriter, r *http.Request, q *Services, u *consent.Unsubscription, action string) {
	values, err := readForm(w, r)
	if err != nil {
		p.s.writeBadLink(w, r, err, &badChoice)
		return
	}
	c, bad := &consent.Choice{By: consent.ByLink, Groups: map[string]bool{u.Group: false}}, &badUnsubscribe
	if values != nil {
		c, err = p.choice(w, r, q, values)
		bad = &badChoice
	}
	if err == nil && !c.Empty() {
		_, err = p.s.recordBy(w, p.slots, p.to, func(ctx context.Context, to consent.Writer) (consent.Link, error) {
			if values == nil && u.Group == "" {
				return consent.Link{}, q.Consent.Unsubscribe(ctx, to, u)
			}
			return consent.Link{}, q.Consent.Choose(ctx, to, u, c)
		})
	}
	if often, ok := errors.AsType[*consent.TooOftenError](err); ok {
		err = &tooFast{after: often.Wait, why: "Too much was changed for this address within an hour. Please try again later. \"Unsubscribe from all\" works at any time."}
	}
	if err != nil {
		p.s.writeBadLink(w, r, err, bad)
		return
	}
	p.show(w, http.StatusOK, p.done(r.Context(), q, u, c, action))
}

// done is what the page says behind a choice.
func (p *preferences) done(ctx context.Context, q *Services, u *consent.Unsubscription, c *consent.Choice, action string) *preferencesView {
	view := &preferencesView{Title: "Your choices are saved", Text: "They hold for mail to " + masked(u.Email) + ". It may take some minutes until they are in force.", Action: action, Again: true}
	all := c.Mail != nil && !*c.Mail || c.By == consent.ByLink && u.Group == ""
	switch {
	case all && !p.to.Away() && unsubscribed(ctx, q.Consent, u.Email):
		view.Title, view.Text = "You are unsubscribed", "No more newsletters and offers will be sent to "+masked(u.Email)+"."
	case all: // it is durable, and the store is behind
		view.Title = "You will be unsubscribed"
		view.Text = "We have noted that no more newsletters and offers are to be sent to " + masked(u.Email) + ". There is nothing more to do. It may take some minutes until it is in force."
	case c.By == consent.ByLink:
		view.Title, view.Text = "You are unsubscribed", "No more mail of this kind will be sent to "+masked(u.Email)+". It may take some minutes until that is in force."
	}
	return view
}

// openSubscription reads the token of a page about a subscription. The error is
// link.ErrInvalid.
func openSubscription(service *consent.Service, keys *link.Keys, text string) (*consent.Unsubscription, error) {
	for _, kind := range [...]link.Kind{link.KindUnsubscribe, link.KindPreferences} {
		if place, subject, err := keys.Open(kind, text); err == nil {
			send := mail.Send{Message: place.Message, Number: place.Send}
			return service.UnsubscriptionOf(subject.Address, subject.Group, send.ID(), text), nil
		}
	}
	return nil, link.ErrInvalid
}

// SubscriptionPages answers below link.PagePath, for a listener of its own: GET shows the
// page of a mail, POST carries out what is chosen there, and the one click of mail
// programs (RFC 8058). What was not made here is answered 404. Which hosts the listener
// is asked for is not looked at: a page that is pointed at it by DNS learns nothing
// without a token. What is chosen is written by to.
func (s *Server) SubscriptionPages(keys *link.Keys, to Choices) http.Handler {
	p := newPreferences(s, to)
	answer := func(w http.ResponseWriter, r *http.Request) {
		text := strings.TrimPrefix(r.URL.Path, link.PagePath)
		q := s.program.Services()
		if q.Consent == nil {
			s.writeBadLink(w, r, errNotRunning, &badUnsubscribe)
			return
		}
		u, err := openSubscription(q.Consent, keys, text)
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost {
			p.post(w, r, q, u, text)
			return
		}
		p.get(w, r, q, u, text)
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	answers := make(map[string]http.HandlerFunc, len(methods))
	for _, m := range methods {
		answers[m] = func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost { // the reader of a body says so itself
				connlimit.Busy(r)
			}
			answer(w, r)
		}
	}
	return s.wrap(s.only(methods, answers), func(*http.Request) error { return nil })
}
