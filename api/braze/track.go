package braze

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/currency"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// Bounds of a track call.
const (
	maxTracked             = 75 // objects of an array
	maxEventPropertyBytes  = 100 << 10
	maxBoughtPropertyBytes = 50 << 10
	maxQuantity            = 100
	maxPrice               = 1e12 // its millionths, a hundred times, are within 64 bits
	maxPriceDigits         = 64   // and what else a number has: it is kept as it came
	maxMistakeBytes        = 500
)

// Messages of a track call that clients know.
const (
	noValidData = "Valid data must be provided in the 'attributes', 'events', or 'purchases' fields."
	tooMany     = "Max Input Length Exceeded"
)

// kinds are the arrays of a track call, in the order in which they are applied,
// and the members of a reply that count them.
var kinds = [...]struct{ array, counter string }{
	kindAttributes: {"attributes", "attributes_processed"},
	kindEvents:     {"events", "events_processed"},
	kindPurchases:  {"purchases", "purchases_processed"},
}

const (
	kindAttributes = iota
	kindEvents
	kindPurchases
)

// mistake is what is wrong with one object, as clients want it. Index is its
// place in the array as it was sent: some tell by it alone what has failed.
type mistake struct {
	Type       string `json:"type"`
	InputArray string `json:"input_array"`
	Index      int    `json:"index"`
}

// tracking is a track call that is being read.
type tracking struct {
	now      int64
	arrays   [len(kinds)]string // as they stand in the body; empty: absent
	good     [len(kinds)]int    // objects that became an update
	refused  int                // objects that did not
	updates  []user.Update
	mistakes []mistake // of objects, and of single fields of good ones
}

// trackings keeps the memory of calls: at most 225 updates each.
var trackings = sync.Pool{New: func() any { return new(tracking) }}

func (t *tracking) giveBack() {
	clear(t.updates)
	clear(t.mistakes)
	*t = tracking{updates: t.updates[:0], mistakes: t.mistakes[:0]}
	trackings.Put(t)
}

// track is POST /users/track.
func track(ctx context.Context, r *Request) (Reply, error) {
	t := trackings.Get().(*tracking)
	defer t.giveBack()
	return t.answer(ctx, r, len(kinds)*maxTracked)
}

// answer reads a call with at most so many objects, and has its updates
// written.
func (t *tracking) answer(ctx context.Context, r *Request, most int) (Reply, error) {
	t.now = r.Now.UnixMilli()
	if wrong := t.read(r.Body); wrong != "" {
		return refuse(wrong)
	}
	if len(t.updates)+t.refused > most {
		return refuse(tooMany)
	}
	if len(t.updates) == 0 {
		refused := reply(http.StatusBadRequest, struct {
			Message string    `json:"message"`
			Errors  []mistake `json:"errors"`
		}{noValidData, append([]mistake{}, t.mistakes...)})
		refused.Refused = t.refused
		return refused, nil
	}
	sendAlong(t.updates)
	if err := r.Core.Update(ctx, t.updates); err != nil {
		return Reply{}, err
	}
	return Reply{http.StatusCreated, t.body(), len(t.updates), t.refused}, nil
}

// sendAlong handles what a call says of an address after attributes that give
// the address to a user. It goes the way of those attributes, since the log of
// the address may be read before theirs, and would make another user of it.
func sendAlong(updates []user.Update) {
	if !slices.ContainsFunc(updates, byAddress) {
		return
	}
	given := make(map[user.Key]user.Key) // whom each address was given to
	for i := range updates {
		u := &updates[i]
		if to, ok := given[u.Key]; ok {
			u.Address, u.Key = u.Key, to
		}
		if u.Op != user.OpAttributes {
			continue
		}
		for _, k := range users.AddressesIn(u.Body) {
			if k != u.Key && k != u.Address {
				given[k] = u.Key
			}
		}
	}
}

func byAddress(u user.Update) bool {
	return u.Key.Kind == user.KeyEmail || u.Key.Kind == user.KeyPhone
}

// body is that of a good reply.
func (t *tracking) body() []byte {
	b := append(make([]byte, 0, 96), `{"message":"success"`...)
	for i := range kinds {
		if t.arrays[i] != "" {
			b = append(append(append(b, ',', '"'), kinds[i].counter...), '"', ':')
			b = strconv.AppendInt(b, int64(t.good[i]), 10)
		}
	}
	return append(t.appendErrors(b), '}')
}

// appendErrors appends the member of a reply that has the mistakes, if there are some.
func (t *tracking) appendErrors(b []byte) []byte {
	if len(t.mistakes) == 0 {
		return b
	}
	return append(append(b, `,"errors":`...), reply(0, t.mistakes).Body...)
}

// read reads a body. It returns the message of a refusal of the whole call, or
// "".
func (t *tracking) read(body string) string {
	c := cutObject(body)
	for c.Next() {
		for i := range kinds {
			if c.Key == kinds[i].array {
				t.arrays[i] = c.Value
			}
		}
	}
	if c.bad {
		return BadRequest
	}
	for kind := range kinds {
		switch a := t.arrays[kind]; {
		case a == "":
		case a == "null":
			t.arrays[kind] = ""
		case a[0] == '{': // what some clients make of a list of one
			t.object(kind, 0, a)
		case a[0] != '[':
			return noValidData
		default:
			if wrong := t.objects(kind, a); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// objects reads an array.
func (t *tracking) objects(kind int, array string) string {
	c := cutArray(array)
	for i := 0; c.Next(); i++ {
		if i == maxTracked {
			return tooMany
		}
		t.object(kind, i, c.Value)
	}
	if c.bad {
		return BadRequest
	}
	return ""
}

// object reads one object: it becomes an update, or a mistake. Standard attributes
// that are wrong are mistakes by themselves, and the others are taken.
func (t *tracking) object(kind, index int, raw string) {
	t.updates = append(t.updates, user.Update{TimeMillis: t.now})
	u := &t.updates[len(t.updates)-1]
	var err error = errTooLarge
	var dropped []*profile.FieldError
	if len(raw) <= sluice.MaxElementBytes {
		switch kind {
		case kindAttributes:
			dropped, err = attributes(raw, u)
		case kindEvents:
			err = event(raw, u, t.now)
		case kindPurchases:
			err = purchase(raw, u, t.now)
		}
	}
	if err == nil && !NumbersFit(raw) {
		err = errNumber
	}
	if err == nil {
		t.good[kind]++
		for _, wrong := range dropped {
			t.mistake(kind, index, wrong)
		}
		return
	}
	t.updates = t.updates[:len(t.updates)-1]
	t.refused++
	t.mistake(kind, index, err)
}

// mistake notes what is wrong with an object, or with one field of it. The reply
// stays a 201 with "message": "success": clients take it for good, and count errors.
func (t *tracking) mistake(kind, index int, wrong error) {
	text := wrong.Error()
	t.mistakes = append(t.mistakes, mistake{strings.ToValidUTF8(text[:min(len(text), maxMistakeBytes)], "\ufffd"), kinds[kind].array, index})
}

// complaint is an error whose text is what the client gets.
type complaint string

// Error returns the text.
func (c complaint) Error() string { return string(c) }

const (
	errTooLarge complaint = "The object is too large: want at most 1048576 bytes."
	errNumber   complaint = "A number in the object is not valid: want whole numbers of 64 bits, and others that a double can be."
	errNoTime   complaint = "'time' is required: ISO 8601."
	errNoName   complaint = "'name' is required: a text of at most 255 bytes."
)

// attributes reads an attributes object. dropped are the standard attributes that
// are left out for their values.
func attributes(raw string, u *user.Update) (dropped []*profile.FieldError, err error) {
	var o object
	m := jsonscan.Read(raw)
	for m.Next() {
		if !o.take(m.Key, m.Value) && !nameFits(m.Key) {
			err = invalid("name of an attribute", "at most 255 characters, none of them a control character")
		}
	}
	if bad := m.Err(); bad != nil {
		return nil, bad
	}
	if err == nil {
		err = o.user(u)
	}
	if err != nil {
		return nil, err
	}
	u.Op = user.OpAttributes
	u.Body, dropped, err = profile.CheckEach(raw)
	return dropped, err
}

// happening is the members that events and purchases have.
type happening struct {
	object
	time, app, properties jsonscan.Value
}

func (h *happening) take(name string, v jsonscan.Value) bool {
	switch name {
	case "time":
		h.time = v
	case "app_id":
		h.app = v
	case "properties":
		h.properties = v
	default:
		return h.object.take(name, v)
	}
	return true
}

// fill fills in what events and purchases have alike. A time to come is now.
func (h *happening) fill(u *user.Update, now int64) error {
	if err := h.user(u); err != nil {
		return err
	}
	if h.time.Kind != jsonscan.String && h.time.Kind != jsonscan.Number {
		return errNoTime
	}
	at, err := timetext.Parse(h.time.Text(), h.time.Kind == jsonscan.String)
	if err != nil {
		return invalid("time", "ISO 8601, from 1970 on")
	}
	u.TimeMillis = min(at, now)
	if h.app.Kind > jsonscan.Null {
		if u.App, err = name("app_id", h.app); err == nil && len(u.App) > sluice.MaxAppIDBytes {
			err = invalid("app_id", "at most 64 bytes")
		}
	}
	return err
}

// event reads an event object.
func event(raw string, u *user.Update, now int64) error {
	var h happening
	var called jsonscan.Value
	m := jsonscan.Read(raw)
	for m.Next() {
		if m.Key == "name" {
			called = m.Value
		} else {
			h.take(m.Key, m.Value)
		}
	}
	if err := m.Err(); err != nil {
		return err
	}
	if err := h.fill(u, now); err != nil {
		return err
	}
	if called.Kind != jsonscan.String {
		return errNoName
	}
	var err error
	if u.Name, err = countedName("name", called); err != nil {
		return err
	}
	u.Op = user.OpEvent
	u.Body, err = properties(h.properties, maxEventPropertyBytes)
	return err
}

// countedName reads the name of an event or a product: it is counted in series,
// whose names are bounded in bytes.
func countedName(field string, v jsonscan.Value) (string, error) {
	s, err := textOrInteger(field, v)
	if err == nil && (strings.TrimSpace(s) == "" || len(s) > sluice.MaxNameBytes) {
		err = invalid(field, "a text of 1 to 255 bytes")
	}
	return s, err
}

// purchase reads a purchase object.
func purchase(raw string, u *user.Update, now int64) error {
	var h happening
	var product, money, price, quantity jsonscan.Value
	m := jsonscan.Read(raw)
	for m.Next() {
		switch m.Key {
		case "product_id":
			product = m.Value
		case "currency":
			money = m.Value
		case "price":
			price = m.Value
		case "quantity":
			quantity = m.Value
		default:
			h.take(m.Key, m.Value)
		}
	}
	err := m.Err()
	if err == nil {
		err = h.fill(u, now)
	}
	if err == nil {
		u.Name, err = countedName("product_id", product)
	}
	if err != nil {
		return err
	}
	u.Op = user.OpPurchase
	u.Body, err = bought(money, price, quantity, h.properties)
	return err
}

// bought is the body of a purchase.
func bought(money, price, quantity, props jsonscan.Value) (string, error) {
	code, ok := currencyCode(money)
	if !ok {
		return "", invalid("currency", "a code of ISO 4217, as EUR")
	}
	if n, err := strconv.ParseFloat(price.Raw, 64); price.Kind != jsonscan.Number || err != nil || math.Abs(n) > maxPrice || len(price.Raw) > maxPriceDigits {
		return "", invalid("price", "a number within ±1000000000000, of at most 64 digits")
	}
	many := "1"
	if quantity.Kind > jsonscan.Null {
		n, err := strconv.Atoi(quantity.Raw)
		if quantity.Kind != jsonscan.Number || err != nil || n < 1 || n > maxQuantity {
			return "", invalid("quantity", "a whole number from 1 to 100")
		}
		many = quantity.Raw
	}
	more, err := properties(props, maxBoughtPropertyBytes)
	if err != nil {
		return "", err
	}
	if more != "" {
		if !profile.LevelsFit(more) { // in a line of an export they are deeper than here
			return "", invalid("properties", "at most 62 levels")
		}
		more = `,"properties":` + more
	}
	return `{"currency":"` + code + `","price":` + price.Raw + `,"quantity":` + many + more + `}`, nil
}

// currencyCode reads a code of ISO 4217, in letters of either case.
func currencyCode(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.String || len(v.Raw) != 5 {
		return "", false
	}
	unit, err := currency.ParseISO(v.Text())
	return unit.String(), err == nil
}

// properties checks an object of properties and returns it, "" if there is none.
func properties(v jsonscan.Value, mostBytes int) (string, error) {
	if v.Kind <= jsonscan.Null {
		return "", nil
	}
	if v.Kind != jsonscan.Object {
		return "", invalid("properties", "an object")
	}
	if len(v.Raw) > mostBytes {
		return "", invalid("properties", "at most "+strconv.Itoa(mostBytes>>10)+" KB")
	}
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		if slices.Contains(reserved, m.Key) {
			return "", invalid("properties", "none of them called time or event_name")
		}
		if strings.HasPrefix(m.Key, "$") || !propertyFits(m.Key, m.Value) {
			return "", invalid("properties", "names of at most 255 characters, not beginning with $ and without control characters, and texts of at most 255")
		}
	}
	return v.Raw, m.Err()
}

// reserved are names that no property may have.
var reserved = []string{"time", "event_name"}

// propertyFits checks a property with all that is in it: jsonscan bounds how
// deep that is.
func propertyFits(called string, v jsonscan.Value) bool {
	if called == "" || !nameFits(called) {
		return false
	}
	switch v.Kind {
	case jsonscan.String:
		return len(v.Raw) <= maxNameRunes || profile.NameFits(v.Text())
	case jsonscan.Object:
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			if !propertyFits(m.Key, m.Value) {
				return false
			}
		}
	case jsonscan.Array:
		e := jsonscan.ReadArray(v.Raw)
		for e.Next() {
			if !propertyFits("element", e.Value) {
				return false
			}
		}
	}
	return true
}
