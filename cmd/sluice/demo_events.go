package main

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// generator makes up the events of mails, the way a mail service's web hooks
// look. Each mail is sent, then delivered, deferred or bounced; part of them is
// opened and clicked some seconds later. So the mix settles after a minute; in
// life it takes hours. Not for several goroutines.
type generator struct {
	rand *rand.Rand
	run  string // makes ids differ from those of other runs
	made uint64
	bad  int
	due  dueHeap
}

// What the generator makes up.
const (
	demoUsers        = 20_000
	demoBadOneIn     = 1000
	maxPendingEvents = 200_000 // beyond it mails are neither opened nor clicked
)

// A campaign is drawn by weight and has its own liking.
type campaign struct {
	name   string
	app    string
	weight int
	opened float64 // of the delivered
	click  float64 // of the opened
}

var campaigns = []campaign{
	{"spring-sale", "shop", 30, 0.28, 0.16},
	{"weekly-digest", "news", 40, 0.41, 0.22},
	{"order-shipped", "shop", 15, 0.68, 0.35},
	{"welcome", "account", 10, 0.57, 0.30},
	{"password-reset", "account", 5, 0.81, 0.74},
}

var (
	firstNames = []string{"amina", "ben", "chiara", "dmitri", "elif", "farid", "grace", "hugo", "ines", "jan", "kofi", "lena", "mateo", "nadia", "olu", "priya", "quinn", "rosa", "sven", "tomoko"}
	lastNames  = []string{"ahmed", "bauer", "costa", "dubois", "eriksen", "fischer", "garcia", "haddad", "ivanova", "jensen", "kim", "lopez", "moreau", "nguyen", "okafor", "patel", "rossi", "sato", "tanaka", "weber"}
	// RFC 2606, 2 and 3: names nobody can own.
	domains = []string{"mail.example", "post.example", "inbox.example", "example.com", "example.net", "example.org"}
)

// mail is one message under way.
type letter struct {
	id       string
	email    string
	user     string
	campaign *campaign
}

// pending is an event that is still to happen.
type pending struct {
	at   time.Time
	name string
	mail *letter
}

// dueHeap is a heap of pending events, the earliest first.
type dueHeap []pending

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(pending)) }
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newGenerator(seed uint64, run string) *generator {
	return &generator{rand: rand.New(rand.NewPCG(seed, 1)), run: run}
}

// next returns n elements, as they happen at the time now.
func (g *generator) next(now time.Time, n int) []string {
	elements := make([]string, 0, n)
	for len(elements) < n {
		g.made++
		if g.made%demoBadOneIn == demoBadOneIn/2 {
			elements = append(elements, g.broken(now))
			continue
		}
		if len(g.due) > 0 && !g.due[0].at.After(now) {
			p := heap.Pop(&g.due).(pending)
			g.follow(now, p)
			elements = append(elements, g.element(now, p.name, p.mail))
			continue
		}
		m := g.mail()
		g.follow(now, pending{now, "sent", m})
		elements = append(elements, g.element(now, "sent", m))
	}
	return elements
}

func (g *generator) mail() *letter {
	user := g.rand.IntN(demoUsers)
	first, last := firstNames[user%len(firstNames)], lastNames[user/len(firstNames)%len(lastNames)]
	m := &letter{
		id:    fmt.Sprintf("m-%s-%d", g.run, g.made),
		user:  fmt.Sprintf("u%05d", user),
		email: fmt.Sprintf("%s.%s%d@%s", first, last, user, domains[user%len(domains)]),
	}
	pick := g.rand.IntN(100)
	for i := range campaigns {
		if m.campaign = &campaigns[i]; pick < m.campaign.weight {
			break
		}
		pick -= m.campaign.weight
	}
	return m
}

// follow decides what an event leads to.
func (g *generator) follow(now time.Time, p pending) {
	later := func(name string, mean time.Duration) {
		if len(g.due) < maxPendingEvents {
			wait := time.Duration(g.rand.ExpFloat64() * float64(mean))
			heap.Push(&g.due, pending{now.Add(wait), name, p.mail})
		}
	}
	chance := g.rand.Float64()
	switch p.name {
	case "sent":
		switch {
		case chance < 0.02:
			later("bounced", time.Second)
		case chance < 0.05:
			later("deferred", time.Second)
		default:
			later("delivered", 500*time.Millisecond)
		}
	case "deferred":
		later("delivered", 5*time.Second)
	case "delivered":
		if chance < p.mail.campaign.opened {
			later("opened", 8*time.Second)
		} else if chance > 0.9995 {
			later("complained", 10*time.Second)
		}
	case "opened":
		if chance < p.mail.campaign.click {
			later("clicked", 4*time.Second)
		} else if chance > 0.995 {
			later("unsubscribed", 6*time.Second)
		}
	}
}

// demoEvent is an element of the list.
type demoEvent struct {
	EventID   string `json:"event_id"`
	Event     string `json:"event"`
	Timestamp int64  `json:"timestamp"` // milliseconds
	Email     string `json:"email"`
	UserID    string `json:"user_id"`
	MessageID string `json:"message_id"`
	AppID     string `json:"app_id"`
	Campaign  string `json:"campaign"`
	Response  string `json:"response,omitempty"`
	URL       string `json:"url,omitempty"`
}

func (g *generator) element(now time.Time, name string, m *letter) string {
	e := demoEvent{
		EventID: fmt.Sprintf("e-%s-%d", g.run, g.made), Event: name, Timestamp: now.UnixMilli(),
		Email: m.email, UserID: m.user, MessageID: m.id, AppID: m.campaign.app, Campaign: m.campaign.name,
	}
	switch name {
	case "bounced":
		e.Response = "550 5.1.1 no such user"
	case "deferred":
		e.Response = "451 4.7.1 try again later"
	case "clicked":
		e.URL = "https://shop.example/" + m.campaign.name
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // a struct of texts and numbers can always be encoded
	}
	return string(text)
}

// broken returns an element that can be no event, of the sorts that producers
// really push: cut off, without a name, with a time that is none.
func (g *generator) broken(now time.Time) string {
	whole := g.element(now, "opened", g.mail())
	g.bad++
	switch g.bad % 3 {
	case 1:
		return whole[:len(whole)/2]
	case 2:
		return fmt.Sprintf(`{"event_id":"e-%s-%d","timestamp":%d}`, g.run, g.made, now.UnixMilli())
	}
	return fmt.Sprintf(`{"event_id":"e-%s-%d","event":"opened","timestamp":"yesterday"}`, g.run, g.made)
}
