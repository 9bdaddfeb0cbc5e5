package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/nearest"
)

// Bounds of a request. What exceeds one is refused.
const (
	// MaxBodyBytes bounds a body. SendGrid posts 768 KB, SparkPost some hundred events.
	MaxBodyBytes = 16 << 20

	// MaxElements bounds the elements of a body, and the events of them: an element has
	// one for each recipient. Netcore posts 1,000 at most.
	MaxElements = 10_000
)

// Provider is one mail provider.
type Provider struct {
	Name string

	// Verify says whether a request is the provider's. An error wraps ErrRefused and
	// says why, for a log; the caller gets no reason. One that does not wrap it says that
	// it may come again: ErrNoCertificate, or that of FirstBody. Verify may wait for a
	// certificate of SNS and for FirstBody, which is what ctx is for.
	Verify func(ctx context.Context, r *Request, a *Access) error

	// Parse reads a body. It looks at no signature. The error is that the body is too
	// large, has too many elements, or is nothing that the provider posts.
	Parse func(r *Request) (Result, error)

	signed string // the header with the signature, or inBody; "" if nothing is signed
	single bool   // it posts one event at a time
}

// inBody says that a signature stands in the body.
const inBody = "body"

// Providers is the table of all providers, in the order of the help.
var Providers = []Provider{
	{Name: "ses", Verify: verifySES, Parse: parseJSON(readSES), signed: snsTypeHeader, single: true},
	{Name: "sendgrid", Verify: verifySendGrid, Parse: parseJSON(readSendGrid), signed: sendgridSignature},
	{Name: "mailgun", Verify: verifyMailgun, Parse: parseMailgun, signed: inBody, single: true},
	{Name: "postmark", Verify: verifyShared, Parse: parseJSON(readPostmark), single: true},
	{Name: "sparkpost", Verify: verifyShared, Parse: parseJSON(readSparkPost)},
	{Name: "netcore", Verify: verifyShared, Parse: parseJSON(readNetcore)},
	{Name: "resend", Verify: verifyResend, Parse: parseJSON(readResend), signed: svixSignature, single: true},
	{Name: "brevo", Verify: verifyShared, Parse: parseJSON(readBrevo)},
	{Name: "mailjet", Verify: verifyShared, Parse: parseJSON(readMailjet)},
	{Name: "mandrill", Verify: verifyMandrill, Parse: parseMandrill, signed: mandrillSignature},
}

// otherNames are names under which a provider is known as well.
var otherNames = map[string]string{"pepipost": "netcore", "sendinblue": "brevo", "sns": "ses", "amazon-ses": "ses"}

// Find returns the provider of a name. The error lists what there is.
func Find(name string) (Provider, error) {
	name = strings.ToLower(name)
	if other, ok := otherNames[name]; ok {
		name = other
	}
	at := slices.IndexFunc(Providers, func(p Provider) bool { return p.Name == name })
	if at < 0 {
		return Provider{}, fmt.Errorf("unknown provider %.64q%s; there are %s", name, nearest.DidYouMean(name, Names()), strings.Join(Names(), ", "))
	}
	return Providers[at], nil
}

// Names are the names of all providers.
func Names() (all []string) {
	for _, p := range Providers {
		all = append(all, p.Name)
	}
	return all
}

// Request is what was posted.
type Request struct {
	// URL is the whole address that the provider posts to, as it was told: Mandrill
	// signs it, and it may carry the secret of a provider that signs nothing.
	URL    string
	Header http.Header
	Body   []byte // as it came: signatures are over these bytes
}

// Result is what a body says.
type Result struct {
	// Events are in the order of the body. An id that occurs twice is there once.
	Events []Event

	// Confirmation is set if SNS asks whether it may post to us.
	Confirmation *Confirmation

	// Notes say, in a sentence each, what the body has beside events.
	Notes []string

	one     [1]Event // of the element that is read
	members object   // what becomes the metadata of one element after the other
}

// only returns the one event of an element.
func (out *Result) only(e *Event) []Event {
	out.one[0] = *e
	return out.one[:]
}

// metadata returns an empty object for the metadata of an element with one event.
func (out *Result) metadata() object {
	if out.members == nil {
		out.members = object{}
	}
	clear(out.members)
	return out.members
}

// element is the text of an element, and the id that follows from it.
type element struct{ text, known string }

// id is made once: an element may be long and have many events.
func (e *element) id() string {
	if e.known == "" {
		e.known = derived(e.text)
	}
	return e.known
}

// reader makes events of one element: mostly one, several if it has several recipients,
// none if it is a test. Events without an id get one that follows from the element.
type reader func(o object, r *Request, out *Result) []Event

// parseJSON is the Parse of a provider that posts an array of elements, or one element.
func parseJSON(read reader) func(*Request) (Result, error) {
	return func(r *Request) (Result, error) {
		if err := checkBody(r); err != nil {
			return Result{}, err
		}
		return readAll(clean(r.Body), r, read)
	}
}

// ErrTooLarge is what the error of a body wraps that is out of bounds.
var ErrTooLarge = errors.New("it is too large")

func checkBody(r *Request) error {
	if len(r.Body) > MaxBodyBytes {
		return fmt.Errorf("read the body: %w: it has %d bytes, the limit is %d", ErrTooLarge, len(r.Body), MaxBodyBytes)
	}
	return nil
}

// errNotJSON is the error of a body that no provider can have meant.
var errNotJSON = fmt.Errorf("%w: it is neither a JSON object nor an array of them; give it as it was posted", ErrUnreadable)

// ErrUnreadable is what the error of a body wraps that is nothing the provider posts.
var ErrUnreadable = errors.New("read the body")

// tooMany is the error of a body with more elements, or events, than are read. n is how
// many were counted before the rest was left.
func tooMany(n int) error {
	return fmt.Errorf("read the body: %w: it has %d events or more, the limit is %d", ErrTooLarge, n, MaxElements)
}

// readAll reads a text that was cleaned: an array, one element, or one a line. Of a body
// with too many nothing is taken.
func readAll(text string, r *Request, read reader) (out Result, err error) {
	text = strings.TrimSpace(text)
	var elements []string
	switch {
	case strings.HasPrefix(text, "["):
		if elements = split(text, MaxElements); len(elements) > MaxElements {
			return out, tooMany(len(elements))
		}
	case !strings.HasPrefix(text, "{"):
		return out, errNotJSON
	default:
		if elements = objectLines(text); len(elements) > MaxElements {
			return out, tooMany(len(elements))
		}
	}
	seen, unread, count := make(map[string]bool, len(elements)), make(map[string]int), 0
	out.Events = make([]Event, 0, len(elements))
	o := make(object, usualMembers) // of one element after the other: nothing keeps it
	for _, element := range elements {
		clear(o)
		if err := o.read(element); err != nil {
			out.unreadable(element, unread, seen)
			count++
		} else {
			events := read(o, r, &out)
			if count += len(events); count <= MaxElements {
				out.add(element, events, seen)
			}
		}
		if count > MaxElements {
			return Result{}, tooMany(count)
		}
	}
	return out, nil
}

// objectLines returns the lines of a text that has an object in each, as queues and
// functions save what they were given, else the text. It returns no more than
// MaxElements+1.
func objectLines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") && len(all) == 0 {
			return []string{text} // lines of one object
		}
		if all = append(all, line); len(all) > MaxElements {
			break
		}
	}
	return all
}

// unreadable takes an element that cannot be read. Two with one text are two: nobody
// knows that one is a repeat of the other.
func (out *Result) unreadable(text string, unread map[string]int, seen map[string]bool) {
	from := element{text: text}
	e := Event{Type: sluice.EventUnknown}
	e.finish(&from, unread[from.id()])
	unread[from.id()]++
	if !seen[e.EventID] {
		seen[e.EventID] = true
		out.Events = append(out.Events, e)
	}
}

// add completes the events of an element and takes those whose ids are new.
func (out *Result) add(text string, events []Event, seen map[string]bool) {
	from := element{text: text}
	for i := range events {
		e := &events[i]
		e.finish(&from, i)
		if !seen[e.EventID] {
			seen[e.EventID] = true
			out.Events = append(out.Events, *e)
		}
	}
}
