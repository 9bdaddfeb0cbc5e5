package journey

import (
	"slices"
	"strings"

	"sluice/mail"
)

// Names are what published journeys wait for: the store writes a fact about these and
// about nothing else. The zero value names nothing. Lists are sorted and have each
// name once: Add and Merge see to it. As JSON they are kept with a publication.
type Names struct {
	Events []string `json:"events,omitempty"` // custom events

	// Purchases are products; Any: each product.
	Purchases []string `json:"purchases,omitempty"`

	// Attributes are custom and standard ones, whose names never collide. A state of
	// subscription is the standard attribute email_subscribe or push_subscribe.
	Attributes []string `json:"attributes,omitempty"`

	Groups []string    `json:"groups,omitempty"` // subscription groups
	Mail   []MailNames `json:"mail,omitempty"`
}

// Any is the name of each product.
const Any = "*"

// MailNames are mail events of some mail.
type MailNames struct {
	Event MailEvent `json:"event"`
	Of    MailOf    `json:"of,omitzero"`
}

// MailEvent is what happens to a mail, as journeys and rules say it.
type MailEvent string

// The mail events.
const (
	MailReceived MailEvent = "received" // a server has taken it
	MailOpened   MailEvent = "opened"
	MailClicked  MailEvent = "clicked"
)

// MailEvents are all of them.
var MailEvents = []MailEvent{MailReceived, MailOpened, MailClicked}

// MailOf says which mail is meant. The zero value is any. Otherwise it is that of one
// message, of a tag, of a journey, or of one step of a journey.
type MailOf struct {
	Message string `json:"message,omitempty"` // id
	Tag     string `json:"tag,omitempty"`
	Journey string `json:"journey,omitempty"`
	Step    string `json:"step,omitempty"` // with Journey
}

// Takes reports whether a mail is meant: of this message, with these tags (separated
// by commas), of this step of this journey (empty: of none).
func (o *MailOf) Takes(message, tags, journey, step string) bool {
	return (o.Message == "" || o.Message == message) &&
		(o.Tag == "" || mail.HasTag(tags, o.Tag)) &&
		(o.Journey == "" || o.Journey == journey) &&
		(o.Step == "" || o.Step == step)
}

func (o *MailOf) compare(other *MailOf) int {
	for _, pair := range [...][2]string{{o.Message, other.Message}, {o.Tag, other.Tag}, {o.Journey, other.Journey}, {o.Step, other.Step}} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}

func (m MailNames) compare(other MailNames) int {
	if c := strings.Compare(string(m.Event), string(other.Event)); c != 0 {
		return c
	}
	return m.Of.compare(&other.Of)
}

// AddEvent adds a custom event.
func (n *Names) AddEvent(name string) { n.Events = added(n.Events, name) }

// AddPurchase adds a product, or Any.
func (n *Names) AddPurchase(product string) { n.Purchases = added(n.Purchases, product) }

// AddAttribute adds an attribute, custom or standard.
func (n *Names) AddAttribute(name string) { n.Attributes = added(n.Attributes, name) }

// AddGroup adds a subscription group.
func (n *Names) AddGroup(id string) { n.Groups = added(n.Groups, id) }

// AddMail adds a mail event of some mail.
func (n *Names) AddMail(event MailEvent, of MailOf) {
	m := MailNames{event, of}
	if i, found := slices.BinarySearchFunc(n.Mail, m, MailNames.compare); !found {
		n.Mail = slices.Insert(n.Mail, i, m)
	}
}

func added(names []string, name string) []string {
	if i, found := slices.BinarySearch(names, name); !found {
		return slices.Insert(names, i, name)
	}
	return names
}

// Merge adds all names of another.
func (n *Names) Merge(other *Names) {
	for _, pair := range [...]struct {
		to   *[]string
		from []string
	}{{&n.Events, other.Events}, {&n.Purchases, other.Purchases}, {&n.Attributes, other.Attributes}, {&n.Groups, other.Groups}} {
		*pair.to = slices.Compact(sorted(append(*pair.to, pair.from...)))
	}
	for _, m := range other.Mail {
		n.AddMail(m.Event, m.Of)
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// HasEvent reports whether a fact is written about a custom event.
func (n *Names) HasEvent(name string) bool { return has(n.Events, name) }

// HasPurchase reports whether a fact is written about the purchase of a product.
func (n *Names) HasPurchase(product string) bool {
	return has(n.Purchases, Any) || has(n.Purchases, product)
}

// HasAttribute reports whether a fact is written about the change of an attribute.
func (n *Names) HasAttribute(name string) bool { return has(n.Attributes, name) }

// HasGroup reports whether a fact is written about a subscription group.
func (n *Names) HasGroup(id string) bool { return has(n.Groups, id) }

// HasMail reports whether a fact is written about a mail event of a mail.
func (n *Names) HasMail(event MailEvent, mail *Mailed) bool {
	for i := range n.Mail {
		if n.Mail[i].Takes(event, mail) {
			return true
		}
	}
	return false
}

// HasMails reports whether a fact may be written about a mail event, of some mail.
func (n *Names) HasMails(event MailEvent) bool {
	for i := range n.Mail {
		if n.Mail[i].Event == event {
			return true
		}
	}
	return false
}

func has(names []string, name string) bool {
	_, found := slices.BinarySearch(names, name)
	return found
}
