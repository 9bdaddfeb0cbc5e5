package main

import (
	"container/heap"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shop makes up what people do in a web shop. Of ten people four have left their address
// and sign up one after the other, three order now and then, and three have not for a
// long time. May be used by several goroutines at once.
type shop struct {
	people int
	seed   uint64
	run    string // makes ids differ from those of other runs

	mu     sync.Mutex
	rand   *mathrand.Rand
	made   uint64
	signed int // people who have signed up
	due    dueHeap
	bought []purchase // not told to the program yet
}

// What the shop makes up. Of a thousand events so many are sign-ups, carts and orders;
// all others are visits.
const (
	shopSignUps = 20
	shopCarts   = 40
	shopOrders  = 10

	shopBadOneIn    = 1000
	shopCartOrders  = 0.45 // of those who fill a cart
	shopClickOrders = 0.50 // of those who click in a mail
	shopBackVisits  = 0.05 // of the visits: people who had not come for long
	shopBackOrders  = 0.40 // of the orders without a cart or a mail
	maxDue          = 100_000
)

// Names of the events that go into the list.
const (
	eventVisit    = "session"
	eventSignUp   = "signed_up"
	eventCart     = "cart_updated"
	eventOrder    = "order"
	demoPurchased = "basket" // what is bought
)

var (
	firstNames = []string{"Amina", "Ben", "Chiara", "Dmitri", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jan", "Kofi", "Lena", "Mateo", "Nadia", "Olu", "Priya", "Quinn", "Rosa", "Sven", "Tomoko"}
	// RFC 2606, 2 and 3: names nobody can own.
	domains = []string{"mail.example", "post.example", "inbox.example", "example.com", "example.net", "example.org"}
	zones   = []string{"America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Europe/Berlin"}
)

// purchase is what /users/track takes.
type purchase struct {
	ExternalID string  `json:"external_id"`
	Product    string  `json:"product_id"`
	Currency   string  `json:"currency"`
	Price      float64 `json:"price"`
	Time       string  `json:"time"`
}

// later is a visit or an order that is still to happen.
type later struct {
	at     time.Time
	event  string
	person int
}

// dueHeap is a heap of what is to happen, the earliest first.
type dueHeap []later

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(later)) }
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newShop(people int, seed uint64) *shop {
	return &shop{people: people, seed: seed, run: strings.ToLower(rand.Text()[:6]), rand: mathrand.New(mathrand.NewPCG(seed, 1))}
}

// isDormant reports whether a person has not ordered for a long time.
func isDormant(person int) bool { return person%10 >= 7 }

func personID(person int) string { return "person-" + strconv.Itoa(person) }

func emailOf(person int) string {
	return fmt.Sprintf("%s.%d@%s", strings.ToLower(firstNames[person%len(firstNames)]), person, domains[person%len(domains)])
}

// personOf is who has an address.
func personOf(email string) (person int, ok bool) {
	local, _, _ := strings.Cut(email, "@")
	_, digits, _ := strings.Cut(local, ".")
	person, err := strconv.Atoi(digits)
	return person, err == nil
}

// profileLine is what is known of a person at first, as an import takes it.
func (s *shop) profileLine(person int) string {
	random := mathrand.New(mathrand.NewPCG(s.seed, uint64(person)))
	text := fmt.Sprintf(`{"external_id":%q,"email":%q,"first_name":%q,"time_zone":%q`,
		personID(person), emailOf(person), firstNames[person%len(firstNames)], zones[random.IntN(len(zones))])
	switch random.IntN(8) {
	case 0:
		text += fmt.Sprintf(`,"company":{"size":%d}`, 1+random.IntN(200))
	case 1, 2:
		text += fmt.Sprintf(`,"invited_by":%q`, personID(random.IntN(s.people)))
	}
	return text + "}"
}

// historyLine is the order that a dormant person made long ago.
func (s *shop) historyLine(person int, now time.Time) string {
	random := mathrand.New(mathrand.NewPCG(s.seed, uint64(person)))
	at := now.Add(-time.Duration(95+random.IntN(250)) * 24 * time.Hour)
	return fmt.Sprintf(`{"event":%q,"user_id":%q,"time":%d,"total":%d}`, eventOrder, personID(person), at.UnixMilli(), 5+random.IntN(200))
}

// clicked tells that somebody has clicked in a mail: a visit, and perhaps an order.
func (s *shop) clicked(email string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	person, ok := personOf(email)
	if !ok {
		return
	}
	s.later(now, 0, eventVisit, person)
	if s.rand.Float64() < shopClickOrders {
		s.later(now, 3*time.Second, eventOrder, person)
	}
}

func (s *shop) later(now time.Time, mean time.Duration, event string, person int) {
	if len(s.due) < maxDue {
		heap.Push(&s.due, later{now.Add(time.Duration(s.rand.ExpFloat64() * float64(mean))), event, person})
	}
}

// next returns n elements of the list, as they happen at the time now.
func (s *shop) next(now time.Time, n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	elements := make([]string, n)
	for i := range elements {
		s.made++
		if s.made%shopBadOneIn == shopBadOneIn/2 {
			elements[i] = s.broken(now)
			continue
		}
		elements[i] = s.one(now)
	}
	return elements
}

func (s *shop) one(now time.Time) string {
	if len(s.due) > 0 && !s.due[0].at.After(now) {
		l := heap.Pop(&s.due).(later)
		if l.event == eventOrder {
			return s.order(now, l.person)
		}
		return s.element(now, l.event, l.person, shopEvent{})
	}
	switch draw := s.rand.IntN(1000); {
	case draw < shopSignUps && s.nextNew() < s.people:
		person := s.nextNew()
		s.signed++
		return s.element(now, eventSignUp, person, shopEvent{})
	case draw < shopSignUps+shopCarts:
		person := s.customer()
		if s.rand.Float64() < shopCartOrders {
			s.later(now, time.Second, eventOrder, person)
		}
		return s.element(now, eventCart, person, shopEvent{Items: 1 + s.rand.IntN(5), Total: 5 + s.rand.IntN(200)})
	case draw < shopSignUps+shopCarts+shopOrders:
		return s.order(now, s.visitor(shopBackOrders))
	}
	return s.element(now, eventVisit, s.visitor(shopBackVisits), shopEvent{})
}

// nextNew is who signs up next: the first four of each ten, in turn.
func (s *shop) nextNew() int { return s.signed/4*10 + s.signed%4 }

// customer is one of those who order now and then.
func (s *shop) customer() int { return s.rand.IntN(s.people/10)*10 + 4 + s.rand.IntN(3) }

// visitor is who comes of their own accord: of so many, one who had not for long.
func (s *shop) visitor(back float64) int {
	if s.rand.Float64() < back {
		return s.rand.IntN(s.people/10)*10 + 7 + s.rand.IntN(3)
	}
	return s.customer()
}

// order is the event, and beside it a purchase for /users/track.
func (s *shop) order(now time.Time, person int) string {
	total := 5 + s.rand.IntN(200)
	s.bought = append(s.bought, purchase{personID(person), demoPurchased, "EUR", float64(total), now.UTC().Format(time.RFC3339Nano)})
	return s.element(now, eventOrder, person, shopEvent{Total: total})
}

// purchases returns what was bought since the last call, most at most.
func (s *shop) purchases(most int) []purchase {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(most, len(s.bought))
	taken := s.bought[:n:n]
	s.bought = s.bought[n:]
	return taken
}

// shopEvent is an element of the list.
type shopEvent struct {
	EventID   string `json:"event_id"`
	Event     string `json:"event"`
	Timestamp int64  `json:"timestamp"` // milliseconds
	UserID    string `json:"user_id"`
	Items     int    `json:"items,omitempty"`
	Total     int    `json:"total,omitempty"`
}

func (s *shop) element(now time.Time, name string, person int, e shopEvent) string {
	e.EventID, e.Event, e.Timestamp, e.UserID = fmt.Sprintf("e-%s-%d", s.run, s.made), name, now.UnixMilli(), personID(person)
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // a struct of texts and numbers can always be encoded
	}
	return string(text)
}

// broken returns an element that can be no event, of the sorts that producers
// really push: cut off, without a name, with a time that is none.
func (s *shop) broken(now time.Time) string {
	whole := s.element(now, eventVisit, s.customer(), shopEvent{})
	switch s.made / shopBadOneIn % 3 {
	case 0:
		return whole[:len(whole)/2]
	case 1:
		return fmt.Sprintf(`{"event_id":"e-%s-%d","timestamp":%d}`, s.run, s.made, now.UnixMilli())
	}
	return fmt.Sprintf(`{"event_id":"e-%s-%d","event":%q,"timestamp":"yesterday"}`, s.run, s.made, eventVisit)
}
