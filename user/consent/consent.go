package consent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/token"
	"sluice/user"
	"sluice/user/profile"
)

// How it works. Filling in a form proves nothing: the address may be anybody's.
// So nothing is kept but an event, with a link in it that is to be mailed to
// the address. The link carries all that was asked for, signed. A person who
// follows it and presses the button there has read the mail. Then the user is
// written, and an event that proves it.
//
// What is promised. An answer never depends on who is known already. A link
// that is fetched changes nothing: mail scanners fetch them all. A link is good
// once: used again, it shows the same page and writes nothing. So it does not
// subscribe again a person who has unsubscribed since. All that a confirmation
// writes is in the log, or nothing of it.
//
// What was dropped: a table of those who have not confirmed yet. It would be
// filled by strangers, and would have to be emptied.

// Names of the events, of the kind system.
const (
	EventRequested = "optin_requested"
	EventConfirmed = "optin_confirmed"
)

// ConfirmPath is where a link leads, below the public URL.
const ConfirmPath = "/optin/confirm"

// Bounds of forms.
const (
	MaxForms          = 100
	MaxGroups         = 20
	MaxGroupBytes     = 100
	MaxFields         = 20
	MaxFormNameBytes  = 64
	MaxHours          = 720
	MaxPerHour        = 1_000_000
	MaxAttributeBytes = 512 // of a request, as JSON

	// purpose is what tokens of this package are signed for.
	purpose = "optin"

	// keptMore is how much longer than a link is good it is remembered that it
	// was used: clocks of processes may differ.
	keptMore = time.Hour

	// maxKnown bounds the addresses, and the senders, whose requests are counted.
	maxKnown = 65_536
)

// Form is what somebody can ask for.
type Form struct {
	Name              string
	Groups            []string // subscription groups that are subscribed
	EmailSubscribe    bool     // email_subscribe becomes opted_in
	ConfirmedURL      string   // where the browser goes after confirming; empty: a page
	Hours             int      // how long a link is good
	Fields            []string // attributes that may be given
	Honeypot          string   // the field that only machines fill in; empty: none
	Origins           []string // whose pages may ask by script; empty: no other's
	PerAddressPerHour int      // 0: no bound
	PerSenderPerHour  int      // 0: no bound
}

// Writer writes events and updates that are about one key, in one step.
type Writer interface {
	// Record writes them and returns when they are durable. With a name that was
	// written under within ttl it writes nothing, and reports that. Errors are those
	// of ingest.Intake.Accept.
	Record(ctx context.Context, key user.Key, events []sluice.Event, updates []user.Update, name string, ttl time.Duration) (written bool, err error)
}

// Service answers requests and confirmations. Its methods may be called from
// several goroutines at once.
type Service struct {
	forms     map[string]*Form
	base      string
	keys      *token.Keys
	clock     sluice.Clock
	addresses *limiter
	senders   *limiter
	forgiven  *limiter // of both: requests that failed and were taken back

	// Unsubscribed says whether an address is known to have unsubscribed from all
	// marketing mail; nil: nothing is known. Set it before anything is asked.
	Unsubscribed func(address string) bool

	// Stopped says whether marketing mail to an address is known to be stopped, for
	// whatever reason, and whether that stays when its person wants mail again; nil:
	// nothing is known. Set it before anything is asked.
	Stopped func(address string) (stopped, stays bool)

	// Pages is with what the links in mails begin that lead to pages of package link;
	// empty: mails have those of UnsubscribeURL.
	Pages string
}

// New returns a service whose links begin with base, a URL without a slash at
// its end; empty: there are no links.
func New(forms []Form, base string, keys *token.Keys, clock sluice.Clock) *Service {
	s := &Service{forms: make(map[string]*Form), base: base, keys: keys, clock: clock, addresses: newLimiter(maxKnown), senders: newLimiter(maxKnown), forgiven: newLimiter(maxKnown)}
	for i := range forms {
		s.forms[forms[i].Name] = &forms[i]
	}
	return s
}

// Form returns a form by its name, nil if there is none.
func (s *Service) Form(name string) *Form { return s.forms[name] }

// Request is what somebody asks for.
type Request struct {
	Form       *Form
	Email      string // as it was given
	Attributes string // a JSON object of the form's Fields, or empty
	IP         netip.Addr
	Trusted    bool // a program with a key asks: it has bounds of its own
}

// Link is what is to be mailed.
type Link struct {
	URL     string
	Expires time.Time
}

// TooOftenError says that a bound of requests is reached.
type TooOftenError struct {
	Sender bool // that of the sender; else of the address
	Wait   time.Duration
}

// Error says whose bound it is.
func (e *TooOftenError) Error() string {
	if e.Sender {
		return "too many requests from this address of the network; send it again after Retry-After"
	}
	return "a link for this address was asked for too often; send it again after Retry-After"
}

// Ask writes down that somebody asks for mail, and returns the link to mail to
// them. Errors: *sluice.Error if the request cannot be one; *TooOftenError;
// those of Writer.
func (s *Service) Ask(ctx context.Context, w Writer, r *Request) (Link, error) {
	now, f := s.clock.Now(), r.Form
	sender := f.Name + "\x00" + connlimit.Network(r.IP, 64)
	if !r.Trusted {
		if wait := s.senders.take(sender, f.PerSenderPerHour, now); wait > 0 {
			return Link{}, &TooOftenError{Sender: true, Wait: wait}
		}
	}
	address, ok := profile.NormalEmail(r.Email)
	if !ok {
		return Link{}, sluice.Refuse(sluice.CodeInvalid, "email is no address: want NAME@DOMAIN, at most %d bytes", sluice.MaxEmailBytes)
	}
	attributes, err := checkAttributes(r.Attributes)
	if err != nil {
		return Link{}, err
	}
	if wait := s.addresses.take(f.Name+"\x00"+address, f.PerAddressPerHour, now); wait > 0 {
		return Link{}, &TooOftenError{Wait: wait}
	}
	link, err := s.ask(ctx, w, r, address, attributes, now)
	if err != nil {
		s.forgive(s.addresses, f.Name+"\x00"+address, f.PerAddressPerHour, now)
		if !r.Trusted {
			s.forgive(s.senders, sender, f.PerSenderPerHour, now)
		}
	}
	return link, err
}

// forgive takes a request back that failed, for who does as told asks again; as often as there
// may be requests, for it may have been written all the same.
func (s *Service) forgive(of *limiter, name string, perHour int, now time.Time) {
	if s.forgiven.take(name, perHour, now) == 0 {
		of.giveBack(name, perHour)
	}
}

// ask makes a link, and writes down that it was asked for.
func (s *Service) ask(ctx context.Context, w Writer, r *Request, address, attributes string, now time.Time) (Link, error) {
	f := r.Form
	expires := sluice.Later(s.clock).Add(time.Duration(f.Hours) * time.Hour).Truncate(time.Second)
	text, err := s.keys.Sign(purpose, expires, f.Name, address, attributes, strconv.FormatInt(now.UnixMilli(), 10), ipText(r.IP), strconv.FormatInt(expires.Unix(), 10))
	if err != nil {
		return Link{}, err
	}
	link := Link{URL: s.base + ConfirmPath + "?t=" + text, Expires: expires}
	properties, err := json.Marshal(struct {
		Form       string `json:"form"`
		ConfirmURL string `json:"confirm_url"`
		Expires    string `json:"expires"`
		IP         string `json:"ip,omitempty"`
	}{f.Name, link.URL, profile.TimeText(expires.UnixMilli()), ipText(r.IP)})
	if err != nil {
		return Link{}, fmt.Errorf("write down a request of form %s: %w", f.Name, err)
	}
	event := sluice.Event{Kind: sluice.KindSystem, TimeMillis: now.UnixMilli(), Name: EventRequested, Email: address, Properties: string(properties)}
	_, err = w.Record(ctx, user.Key{Kind: user.KeyEmail, Name: address}, []sluice.Event{event}, nil, "", 0)
	return link, err
}

// linkMember is the member of what an EventRequested says that has the link. Who reads it
// can confirm in the name of another.
const linkMember = "confirm_url"

// HideLink takes the link out of the properties of an EventRequested. Properties that
// cannot be read go as a whole.
func HideLink(e *sluice.Event) {
	if e.Kind != sluice.KindSystem || e.Name != EventRequested || e.Properties == "" {
		return
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal([]byte(e.Properties), &properties) != nil {
		e.Properties = "{}"
		return
	}
	delete(properties, linkMember)
	text, _ := json.Marshal(properties) // of what was read
	e.Properties = string(text)
}

// HasLink reports whether a text may have such a link in it: the encoding of an event, or
// one as JSON.
func HasLink(text []byte) bool { return bytes.Contains(text, []byte(linkMember)) }

// checkAttributes returns the attributes as a profile takes them.
func checkAttributes(object string) (string, error) {
	if object == "" {
		return "{}", nil
	}
	object, err := profile.Check(object)
	if err != nil {
		return "", sluice.Refuse(sluice.CodeInvalid, "%s", err)
	}
	if len(object) > MaxAttributeBytes {
		return "", sluice.Refuse(sluice.CodeTooLarge, "the fields have %d bytes together, at most %d are allowed", len(object), MaxAttributeBytes)
	}
	return object, nil
}

// Opened is what a link asks for.
type Opened struct {
	Form    *Form
	Email   string
	Expires time.Time

	attributes  string
	askedMillis int64
	askedIP     string
	name        string // under which it is remembered that it was used
}

// Open reads a link's token. The error is token.ErrInvalid or token.ErrExpired;
// that of a form that is no more is the latter.
func (s *Service) Open(text string) (*Opened, error) {
	fields, err := s.open(purpose, text, 6)
	if err != nil {
		return nil, err
	}
	asked, err1 := strconv.ParseInt(fields[3], 10, 64)
	expires, err2 := strconv.ParseInt(fields[5], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, token.ErrInvalid
	}
	o := &Opened{
		Form: s.forms[fields[0]], Email: fields[1], Expires: time.Unix(expires, 0), attributes: fields[2],
		askedMillis: asked, askedIP: fields[4], name: onceName("optin-", text),
	}
	if o.Form == nil {
		return nil, token.ErrExpired
	}
	return o, nil
}

// onceName is under what it is remembered that a token was used.
func onceName(prefix, text string) string {
	hash := sha256.Sum256([]byte(text))
	return prefix + base64.RawURLEncoding.EncodeToString(hash[:16])
}

// open reads a token of so many fields.
func (s *Service) open(purpose, text string, fields int) ([]string, error) {
	if s.keys == nil {
		return nil, token.ErrInvalid // none was ever made
	}
	found, err := s.keys.Open(purpose, text, s.clock.Now())
	if err == nil && len(found) != fields {
		err = token.ErrInvalid
	}
	return found, err
}

// Confirm writes that a link was followed and its button pressed: the user, the
// user's groups, and the event that proves it. Of a link that was used before
// it writes nothing.
func (s *Service) Confirm(ctx context.Context, w Writer, o *Opened, ip netip.Addr) error {
	now := s.clock.Now()
	key := user.Key{Kind: user.KeyEmail, Name: o.Email}
	body := o.attributes
	if o.Form.EmailSubscribe {
		body = withMember(body, "email_subscribe", `"opted_in"`)
	}
	updates := []user.Update{{Op: user.OpAttributes, Key: key, TimeMillis: now.UnixMilli(), Body: body}}
	for _, g := range o.Form.Groups {
		updates = append(updates, user.Update{Op: user.OpGroup, Key: key, TimeMillis: now.UnixMilli(), Name: g, Body: "subscribed"})
	}
	properties, err := json.Marshal(struct {
		Form           string   `json:"form"`
		IP             string   `json:"ip,omitempty"`
		Asked          string   `json:"asked"`
		AskedIP        string   `json:"asked_ip,omitempty"`
		EmailSubscribe bool     `json:"email_subscribe"`
		Groups         []string `json:"groups"`
	}{o.Form.Name, ipText(ip), profile.TimeText(o.askedMillis), o.askedIP, o.Form.EmailSubscribe, slices.Concat([]string{}, o.Form.Groups)})
	if err != nil {
		return fmt.Errorf("write down a confirmation of form %s: %w", o.Form.Name, err)
	}
	events := []sluice.Event{{Kind: sluice.KindSystem, TimeMillis: now.UnixMilli(), ID: o.name, Name: EventConfirmed, Email: o.Email, Properties: string(properties)}}
	if o.Form.EmailSubscribe { // a person who had unsubscribed gets mail again: the event lifts the suppression
		events = append(events, sluice.Event{Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: now.UnixMilli(), ID: o.name + "-mail", Name: sluice.EventSubscribed, Email: o.Email})
	}
	_, err = w.Record(ctx, key, events, updates, o.name, o.Expires.Sub(now)+keptMore)
	return err
}

// withMember puts a member behind the others of an object.
func withMember(object, name, raw string) string {
	comma := ","
	if object == "{}" {
		comma = ""
	}
	return object[:len(object)-1] + comma + profile.Quoted(name) + ":" + raw + "}"
}

// ConfirmedOrigin is where the browser goes after confirming, as a policy of
// what a page may do names it; empty: nowhere else.
func (f *Form) ConfirmedOrigin() string {
	u, err := url.Parse(f.ConfirmedURL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func ipText(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}
