package journey

import (
	"bytes"
	"encoding/json"

	"sluice"
)

// FactKind says what a fact is. The numbers are stored: never change one.
type FactKind uint16

// The kinds of facts. What Name and Body are is said for each.
const (
	// FactEvent: a custom event counted for the user. Name is the event, Body its
	// properties, an object, or empty.
	FactEvent FactKind = 1

	// FactPurchase: a purchase counted for the user. Name is the product, Body that of
	// user.OpPurchase.
	FactPurchase FactKind = 2

	// FactAttributes: attributes are others than before. Body has each registered one
	// that changed, {"plan": ["free", "gold"]}: before and after, null where there was
	// or is none. The states of mail are attributes too, email_subscribe and
	// push_subscribe: where somebody has said nothing, the first is null. So is external_id,
	// when somebody becomes known.
	FactAttributes FactKind = 3

	// FactGroups is FactAttributes for subscription groups: {"news": [null, "subscribed"]}.
	FactGroups FactKind = 4

	// FactMerged: the user was merged into another, whose id Name is (user.ID.String).
	// FactTookIn is the other side: Name is the id of the user who was taken in. It is
	// in the partition of the user who stays, and may come later.
	FactMerged FactKind = 5
	FactTookIn FactKind = 6

	// FactDeleted: the user was erased.
	FactDeleted FactKind = 7

	// FactMail: a mail of the user was received, opened or clicked. Name is that
	// MailEvent, Body a Mailed.
	FactMail FactKind = 8

	// FactEntered: a call of the API lets the user into the journey whose id Name is.
	// Body is the context, an object, or empty.
	FactEntered FactKind = 9

	// FactPlace: the user takes over the place of a former user in the journey whose id
	// Name is. Body is a Place. It follows the FactTookIn, where that user was of another
	// partition.
	FactPlace FactKind = 10
)

// Lasting are the kinds that name people but by their numbers: an erasure leaves them,
// and deletes all others.
var Lasting = []FactKind{FactMerged, FactTookIn, FactDeleted}

// Fact is what an item of a log has said about one user, kept for journeys until they
// have read it. Its key is the place of the item, the user and the kind. So an item
// that is read again, also after the database has gone back, is the same facts.
//
// Each item is looked at by itself. If an attribute goes from A to B and back to A in
// one transaction, that is two facts: a journey may begin at each of them. It could not
// be otherwise: how many items come together in a transaction depends on the load, and
// the facts of an item must not.
type Fact struct {
	Place      sluice.Place // of the item; its partition is the user's
	Number     int64        // the user, in that partition
	Kind       FactKind
	Name       string
	TimeMillis int64 // when it happened: that of the update
	Body       string
}

// Properties are what rules call so, an object or nothing: those of an event. Those of a
// purchase are its own and product, currency, price and quantity, which come before own
// ones of such a name.
func (f *Fact) Properties() string {
	switch f.Kind {
	case FactEvent, FactEntered:
		return f.Body
	case FactPurchase:
		return f.ofPurchase()
	}
	return ""
}

func (f *Fact) ofPurchase() string {
	var body struct {
		Currency, Price, Quantity json.RawMessage
		Properties                map[string]json.RawMessage
	}
	if json.Unmarshal([]byte(f.Body), &body) != nil || body.Properties == nil {
		body.Properties = make(map[string]json.RawMessage)
	}
	product, err := json.Marshal(f.Name)
	if err != nil {
		panic(err) // a string
	}
	for name, raw := range map[string]json.RawMessage{"product": product, "currency": body.Currency, "price": body.Price, "quantity": body.Quantity} {
		if raw != nil {
			body.Properties[name] = raw
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body.Properties); err != nil {
		panic(err) // what was read as JSON
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

// Registered are the names of which facts are written: those of all versions of
// journeys that are in use. It never changes. Merges and deletions are written if any
// version is in use. A nil one has no names.
type Registered struct {
	published int64
	versions  int
	names     Names
}

// NewRegistered returns the names of some versions. published is the publish number
// under which they were read, above 0.
func NewRegistered(published int64, versions []Names) *Registered {
	r := &Registered{published: published, versions: len(versions)}
	for i := range versions {
		r.names.Merge(&versions[i])
	}
	return r
}

// none is what a nil Registered has.
var none Names

// Names returns the names, which must not be changed.
func (r *Registered) Names() *Names {
	if r == nil {
		return &none
	}
	return &r.names
}

// Published returns the publish number under which the names were read; 0: none was.
func (r *Registered) Published() int64 {
	if r == nil {
		return 0
	}
	return r.published
}

// Any reports whether a version is in use: if not, no fact is written.
func (r *Registered) Any() bool { return r != nil && r.versions > 0 }
