package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

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
	// says why, for a log; the caller gets no reason. It may wait for a certificate of
	// SNS, which is what ctx is for; no other provider makes it wait.
	Verify func(ctx context.Context, r *Request, a *Access) error

	// Parse reads a body. It looks at no signature. The error is that the body is too
	// large, has too many elements, or is nothing that the provider posts.
	Parse func(r *Request) (Result, error)
}

// Providers is the table of all providers, in the order of the help.
var Providers = []Provider{
	{Name: "ses", Verify: verifySES, Parse: parseJSON(readSES)},
	{Name: "sendgrid", Verify: verifySendGrid, Parse: parseJSON(readSendGrid)},
	{Name: "mailgun", Verify: verifyMailgun, Parse: parseMailgun},
	{Name: "postmark", Verify: verifyShared, Parse: parseJSON(readPostmark)},
	{Name: "sparkpost", Verify: verifyShared, Parse: parseJSON(readSparkPost)},
	{Name: "netcore", Verify: verifyShared, Parse: parseJSON(readNetcore)},
	{Name: "resend", Verify: verifyResend, Parse: parseJSON(readResend)},
	{Name: "brevo", Verify: verifyShared, Parse: parseJSON(readBrevo)},
	{Name: "mailjet", Verify: verifyShared, Parse: parseJSON(readMailjet)},
	{Name: "mandrill", Verify: verifyMandrill, Parse: parseMandrill},
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

func checkBody(r *Request) error {
	if len(r.Body) > MaxBodyBytes {
		return fmt.Errorf("read the body: it has %d bytes, the limit is %d", len(r.Body), MaxBodyBytes)
	}
	return nil
}

// errNotJSON is the error of a body that no provider can have meant.
var errNotJSON = errors.New("read the body: it is neither a JSON object nor an array of them; give it as it was posted")

// tooMany is the error of a body with more elements, or events, than are read. n is how
// many were counted before the rest was left.
func tooMany(n int) error {
	return fmt.Errorf("read the body: it has %d events or more, the limit is %d", n, MaxElements)
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
	seen, unread, count := make(map[string]bool), make(map[string]int), 0
	for _, element := range elements {
		o, err := readObject(element)
		if err != nil {
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
func (out *Result) unreadable(element string, unread map[string]int, seen map[string]bool) {
	id := derived(element)
	e := Event{Type: sluice.EventUnknown}
	e.finish(element, func() string { return id }, unread[id])
	unread[id]++
	if !seen[e.EventID] {
		seen[e.EventID] = true
		out.Events = append(out.Events, e)
	}
}

// add completes the events of an element and takes those whose ids are new.
func (out *Result) add(element string, events []Event, seen map[string]bool) {
	id := sync.OnceValue(func() string { return derived(element) }) // an element may be long and have many
	for i := range events {
		e := &events[i]
		e.finish(element, id, i)
		if !seen[e.EventID] {
			seen[e.EventID] = true
			out.Events = append(out.Events, *e)
		}
	}
}
