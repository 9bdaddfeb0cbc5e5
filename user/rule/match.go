package rule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user"
)

// Bounds of a Set.
const (
	MaxRules    = 64  // a bit each
	MaxProfiles = 512 // of one call
)

// Set is rules that are matched together.
//
// The idea: conditions do not ask a profile for values. The set knows which
// members of the text all its conditions want, one slot for each. It walks the
// text once, and puts what it meets into the slots. Then conditions look into
// their slots. A member that nobody wants is passed over, and what comes behind
// the last that is wanted is not looked at. Numbers, times and tallies stay
// text until a condition needs them.
//
// The invariants. A profile's text has its names sorted (package profile). So
// the walk goes through the wanted names and the present names side by side,
// without a map. Slots are cleared for each profile and never outlive its text.
// A profile costs no allocation, except for names and times written with
// escapes or wrongly.
//
// Dropped: profile.Parse, which allocates some twenty times a profile.
type Set struct {
	rules []node
	wants [sections]wanted
	used  int // sections of a profile in which something is wanted
	slots int

	asked *Questions
	asks  bool // this set has needs itself
}

// section is a member of a profile's text in which conditions find values. An
// attribute is in one of many; an external id is one itself.
type section uint8

const (
	inExternalID section = iota
	inCreated
	inFields
	inCustom
	inEvents
	inPurchases
	inRevenue
	inGroups
	inProperties // from here on: texts beside the profile
	inContext
	sections
	nowhere // a bucket needs no profile
)

func sectionNamed(name string) section {
	switch name {
	case fieldExternalID:
		return inExternalID
	case fieldCreated:
		return inCreated
	case "fields":
		return inFields
	case "custom":
		return inCustom
	case "events":
		return inEvents
	case "purchases":
		return inPurchases
	case "revenue":
		return inRevenue
	case "groups":
		return inGroups
	}
	return nowhere
}

// wanted is what is wanted of a section: sorted names, and their slots.
type wanted struct {
	names []string
	slots []int
}

const fieldTimeZone = "time_zone"

// slotOfZone is where the user's time zone is put, if anybody wants it.
const slotOfZone = 0

// NewSet puts rules together. Match gives the i-th of them bit i.
func NewSet(rules ...*Rule) (*Set, error) { return new(Questions).NewSet(rules...) }

func newSet(asked *Questions, rules ...*Rule) (*Set, error) {
	if len(rules) == 0 || len(rules) > MaxRules {
		return nil, fmt.Errorf("make set of rules: want 1 to %d rules, got %d", MaxRules, len(rules))
	}
	s := &Set{slots: slotOfZone + 1, asked: asked}
	for _, r := range rules {
		s.rules = append(s.rules, r.root.copied())
	}
	for i := range s.rules {
		s.rules[i].each(s.want)
	}
	if n := len(asked.needs); n > MaxNeeds {
		return nil, fmt.Errorf("make set of rules: want at most %d different conditions about journeys and mail, got %d", MaxNeeds, n)
	}
	for i := range s.wants[:inProperties] {
		if len(s.wants[i].names) > 0 {
			s.used++
		}
	}
	return s, nil
}

// want gives a condition its slot.
func (s *Set) want(c *condition) {
	if c.userZone {
		s.slotOf(inFields, fieldTimeZone)
	}
	if c.subject == ofJourney || c.subject == ofMail {
		c.slot = s.needOf(c.more.need)
	} else if where, name := c.place(); where != nowhere {
		c.slot = s.slotOf(where, name)
	}
}

func (s *Set) slotOf(where section, name string) int {
	w := &s.wants[where]
	i, ok := slices.BinarySearch(w.names, name)
	if ok {
		return w.slots[i]
	}
	slot := slotOfZone
	if where != inFields || name != fieldTimeZone {
		slot = s.slots
		s.slots++
	}
	w.names = slices.Insert(w.names, i, name)
	w.slots = slices.Insert(w.slots, i, slot)
	return slot
}

// place is where a condition's value is in the text of a profile.
func (x *condition) place() (section, string) {
	switch x.subject {
	case ofField:
		if where := sectionNamed(x.name); where != nowhere {
			return where, "" // external_id and created: the section is the value
		}
		return inFields, x.name
	case ofEvent:
		return inEvents, x.name
	case ofPurchase:
		return inPurchases, x.name
	case ofSpent:
		return inRevenue, x.name
	case ofGroup:
		return inGroups, x.name
	case ofSubscription:
		return inFields, x.name + "_subscribe"
	case ofProperty:
		if x.more != nil && x.more.step != "" {
			return inContext, journey.WaitedMember(x.more.step, x.name)
		}
		return inProperties, x.name
	case ofContext:
		return inContext, x.name
	case ofBucket, ofJourney, ofMail:
		return nowhere, ""
	}
	return inCustom, x.name
}

// Match sets bit r of out[i] if rule r holds for the profile texts[i] of the
// user ids[i], at nowMillis (since the epoch). An id is any number that stays
// with its user: it decides buckets. The three are of one length, at most
// MaxProfiles. A text that is no profile matches no rule, and is counted as
// unread. Texts are those that profile.Append makes; of another one it may or
// may not be noticed that it is none. Match may run many times at once.
func (s *Set) Match(texts []string, ids []uint64, nowMillis int64, out []uint64) (unread int, err error) {
	if s.Asks() {
		return 0, errors.New("match rules: they ask for more than profiles: hand it in by MatchGiven")
	}
	return s.match(texts, ids, nowMillis, nil, out)
}

// match is MatchGiven; given may be nil.
func (s *Set) match(texts []string, ids []uint64, nowMillis int64, given []Given, out []uint64) (unread int, err error) {
	if len(texts) > MaxProfiles || len(ids) != len(texts) || len(out) != len(texts) {
		return 0, fmt.Errorf("match rules: want texts, ids and results of one length of at most %d, got %d, %d and %d",
			MaxProfiles, len(texts), len(ids), len(out))
	}
	e := s.evaluation(nowMillis)
	for i, text := range texts {
		out[i] = 0
		if err := e.read(text, ids[i]); err != nil {
			unread++
			continue
		}
		if given != nil && e.readGiven(&given[i]) != nil {
			unread++
			continue
		}
		for r := range s.rules {
			if e.holds(&s.rules[r]) {
				out[i] |= 1 << r
			}
		}
	}
	return unread, nil
}

// evaluation is what is known of the user at hand.
type evaluation struct {
	set       *Set
	slots     []jsonscan.Value
	id        uint64
	nowMillis int64
	known     uint64 // answers to the set's needs, a bit each
	scratch   []byte // for texts with escapes
}

func (s *Set) evaluation(nowMillis int64) *evaluation {
	return &evaluation{set: s, slots: make([]jsonscan.Value, s.slots), nowMillis: nowMillis}
}

// read walks over a profile's text and fills the slots.
func (e *evaluation) read(text string, id uint64) error {
	clear(e.slots)
	e.id = id
	m := jsonscan.Read(text)
	for left := e.set.used; left > 0 && m.Next(); {
		where := sectionNamed(m.Key)
		if where == nowhere || len(e.set.wants[where].names) == 0 {
			continue
		}
		left--
		w := &e.set.wants[where]
		if where == inExternalID || where == inCreated {
			e.slots[w.slots[0]] = m.Value
		} else if err := e.readSection(w, m.Value.Raw); err != nil {
			return err
		}
	}
	return m.Err()
}

func (e *evaluation) readSection(w *wanted, object string) error {
	m := jsonscan.Read(object)
	for next := 0; m.Next(); {
		for next < len(w.names) && w.names[next] < m.Key {
			next++
		}
		if next == len(w.names) {
			return nil
		}
		if w.names[next] == m.Key {
			e.slots[w.slots[next]] = m.Value
		}
	}
	return m.Err()
}

func (e *evaluation) holds(n *node) bool {
	switch n.tie {
	case and:
		for i := range n.all {
			if !e.holds(&n.all[i]) {
				return false
			}
		}
		return true
	case or:
		for i := range n.all {
			if e.holds(&n.all[i]) {
				return true
			}
		}
		return false
	case not:
		return !e.holds(&n.all[0])
	case named:
		return e.holds(&n.all[0])
	}
	return e.compare(&n.cond, e.find(&n.cond)) != n.cond.how.negated
}

// maxBuckets is how many buckets a seed divides users into.
const maxBuckets = 10000

// seedOf is FNV-1a of a bucket's seed.
func seedOf(seed string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed)) // it never fails
	return h.Sum64()
}

// Bucket is the bucket of a user, 0 to 9999, as conditions with that seed see it.
func Bucket(user user.ID, seed string) int64 { return bucketOf(user.Hash(), seedOf(seed)) }

// bucketOf spreads users over 0 to 9999, for each seed in another way. It must
// never change: a user in a test's half would move to the other. The mixing is
// the finalizer of MurmurHash3, twice, so that ids one apart are far apart.
func bucketOf(id, seed uint64) int64 {
	h, _ := bits.Mul64(mixed(mixed(id)^seed), maxBuckets)
	return int64(h)
}

func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// textOf returns a string's text, without allocating. It is good until the
// next call.
func (e *evaluation) textOf(v jsonscan.Value) []byte {
	e.scratch = v.AppendText(e.scratch[:0])
	return e.scratch
}

// sameScalar reports whether a value of a profile is a scalar of a rule.
func (e *evaluation) sameScalar(v jsonscan.Value, s *scalar) bool {
	if v.Kind != s.kind {
		return false
	}
	switch {
	case v.Kind == jsonscan.Number:
		whole, exact, float := numberOf(v.Raw)
		return compared(whole, exact, float, s) == 0
	case v.Escaped:
		return string(e.textOf(v)) == s.text
	case v.Kind == jsonscan.String:
		return v.Raw[1:len(v.Raw)-1] == s.text
	}
	return v.Raw == s.text
}
