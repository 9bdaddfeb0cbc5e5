package run

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/tables"
	"sluice/user"
)

// bed is a Redis and a database with people, and one partition of journeys.
type bed struct {
	*testing.T
	redis  *flow.Redis
	server *servers.Redis
	store  *sqlstore.Store
	clock  *clocktest.Clock
	leases *flow.Leases
	log    *flow.Log
	all    []*plans
	file   string // of the database

	published int64
	caps      []journey.Cap
	control   int     // percent of all people
	asked     int     // statements about mail
	attempts  int     // of mayLeave
	contexts  int     // statements about contexts
	facts     int     // statements about facts
	profiles  []int64 // whose were read
	zoned     bool    // people live in several zones
	follows   bool    // what is not stored is waited for
	raises    bool    // people get another tier now and then
}

// countingStore counts the statements about mail.
type countingStore struct {
	*sqlstore.Store
	asked    *int
	contexts *int
	facts    *int
	profiles *[]int64
}

func (s countingStore) ProfilesOf(ctx context.Context, partition int, numbers []int64, each func(number int64, profile string) bool) error {
	*s.profiles = append(*s.profiles, numbers...)
	return s.Store.ProfilesOf(ctx, partition, numbers, each)
}

func (s countingStore) Facts(ctx context.Context, partition int, after sluice.Place, limit int) ([]journey.Fact, error) {
	*s.facts++
	return s.Store.Facts(ctx, partition, after, limit)
}

func (s countingStore) Contexts(ctx context.Context, partition int, of int64, numbers []int64) ([]journey.Kept, error) {
	*s.contexts++
	return s.Store.Contexts(ctx, partition, of, numbers)
}

func (s countingStore) MailKnown(ctx context.Context, ids []user.ID, asked []store.MailAsked) (map[user.ID]uint64, error) {
	*s.asked++
	return s.Store.MailKnown(ctx, ids, asked)
}

func (s countingStore) MailCounts(ctx context.Context, follower string, partition int, numbers []int64, counted []store.MailCounted) (map[int64][]int, sluice.Position, error) {
	*s.asked++
	return s.Store.MailCounts(ctx, follower, partition, numbers, counted)
}

// bedPartitions are those with a lease; nearly all tests use the first alone.
const bedPartitions = 2

func newBed(t *testing.T, people int) *bed {
	t.Helper()
	sluice.WriteNewForms() // as processes do that all read them
	b := &bed{T: t, clock: clocktest.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))}
	var err error
	if b.server, err = servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.server.Kill() })
	if b.redis, err = flow.Dial(t.Context(), b.server.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.redis.Close)
	b.file = filepath.Join(t.TempDir(), "sluice.db")
	tables.Make(t, b.file)
	if b.store, err = sqlstore.Open(t.Context(), "sqlite:"+b.file, sqlstore.Options{Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	partitions := flow.Partitions(bedPartitions)
	b.log = flow.NewLog(b.redis, partitions[0])
	b.leases = flow.NewLeases(b.redis, b.store, slog.New(slog.DiscardHandler))
	b.leases.AddPartitions(Role, b.redis, partitions)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.leases.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	changes := &user.Changes{}
	for n := range people {
		changes.Put = append(changes.Put, user.Row{ID: user.ID{Number: int64(n) + 1}, Profile: profileOf(n + 1)})
	}
	b.apply(&store.Effect{Users: changes})
	err = b.store.AddTemplate(t.Context(), mail.Template{ID: "x", Name: "x", Current: 1}, mail.TemplateVersion{Template: "x", Version: 1, Class: mail.ClassMarketing, Subject: "Hello", Text: "Hello", From: "us@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// profileOf is the n-th person's: every third has the plan gold.
func profileOf(n int) string {
	return fmt.Sprintf(`{"external_id":"u%d","fields":{"email":"u%d@example.com"},"custom":{"plan":%q}}`, n, n, []string{"gold", "free", "free"}[n%3])
}

func (b *bed) apply(e *store.Effect) {
	b.Helper()
	p, err := b.store.Prepare(e)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.store.Apply(b.Context(), p); err != nil {
		b.Fatal(err)
	}
}

// open opens the partition, as a process that takes it over.
func (b *bed) open() *part {
	b.Helper()
	p, err := b.tryOpen()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// tryOpen is open, with its error.
func (b *bed) tryOpen() (*part, error) { return b.tryOpenAt(b.log) }

// tryOpenAt opens the partition of a log.
func (b *bed) tryOpenAt(log *flow.Log) (*part, error) {
	held, changed := b.leases.Held(Role)
	for held[log.Partition()] == nil {
		<-changed
		held, changed = b.leases.Held(Role)
	}
	by := "" // nobody is waited for
	if len(b.caps) > 0 || b.follows {
		by = storedBy
	}
	p := &part{log: log, lease: held[log.Partition()], store: countingStore{b.store, &b.asked, &b.contexts, &b.facts, &b.profiles}, storedBy: by, caps: b.caps, control: b.control, clock: b.clock, busy: make(chan struct{}, 1), published: b.published, stats: &Stats{}}
	return p, p.open(b.Context(), b.all)
}

// passes works until nothing is left to do.
func (b *bed) passes(p *part) {
	b.Helper()
	for {
		worked, err := p.pass(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if !worked {
			return
		}
	}
}

// publish stores a journey and publishes it, and has it in the partitions opened later.
func (b *bed) publish(text string) store.Journey {
	b.Helper()
	d, p, err := plan.LoadYAML(text, b.loader().database().Env(b.Context()))
	if err != nil {
		b.Fatal(err)
	}
	j, err := b.store.AddJourney(b.Context(), store.Journey{ID: d.ID, Status: journey.StatusDraft, Draft: p.Canonical()})
	if err != nil {
		b.Fatal(err)
	}
	j.Status = journey.StatusLive
	if _, _, err := b.store.Publish(b.Context(), j, p.Canonical(), p.Names()); err != nil {
		b.Fatal(err)
	}
	if b.all, b.published, err = b.loader().Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	return j
}

func (b *bed) loader() *Loader {
	return &Loader{Journeys: b.store, Templates: b.store, Segments: b.store, Caps: b.caps, Log: slog.Default()}
}

// found is what the log has.
type found struct {
	sends   map[string]int      // by recipient
	ids     map[string]int      // by message
	steps   map[string][]string // of mails, by recipient
	updates int
	named   map[string]int // updates by their names

	contexts int                 // items
	contents map[string][]string // of mails, by recipient
	variants map[string][]string // of mails, by recipient
	counts   map[string]int64
	tagged   map[string]map[string]bool // ids of messages by their first tag
}

func newFound() found {
	return found{named: make(map[string]int), sends: make(map[string]int), contents: make(map[string][]string), variants: make(map[string][]string), steps: make(map[string][]string), ids: make(map[string]int), counts: make(map[string]int64), tagged: make(map[string]map[string]bool)}
}

// read reads the whole log.
func (b *bed) read() found {
	b.Helper()
	f := newFound()
	for at := (sluice.Position{}); ; {
		batches, err := b.log.Read(b.Context(), at, 100, 0)
		if err != nil {
			b.Fatal(err)
		}
		if len(batches) == 0 {
			return f
		}
		for i := range batches {
			b.readBatch(&f, batches[i].Data)
			at = batches[i].Position
		}
	}
}

func (b *bed) readBatch(f *found, data []byte) {
	r, err := sluice.ReadBatch(data)
	if err != nil {
		b.Fatal(err)
	}
	for r.Next() {
		switch r.Item.Kind {
		case sluice.ItemSend:
			var s mail.Send
			if err := mail.DecodeSend(r.Item.Payload, &s); err != nil {
				b.Fatal(err)
			}
			f.sends[s.To]++
			f.variants[s.To] = append(f.variants[s.To], s.Variant)
			f.contents[s.To] = append(f.contents[s.To], s.Content)
			f.steps[s.To] = append(f.steps[s.To], s.Step)
			f.ids[s.Message]++
			if f.tagged[s.Tags] == nil {
				f.tagged[s.Tags] = make(map[string]bool)
			}
			f.tagged[s.Tags][s.Message] = true
		case sluice.ItemUser:
			f.updates++
			var u user.Update
			if err := user.DecodeUpdate(r.Item.Payload, &u); err != nil {
				b.Fatal(err)
			}
			f.named[u.App]++
		case sluice.ItemCount:
			var c sluice.Count
			if err := sluice.DecodeCount(r.Item.Payload, &c); err != nil {
				b.Fatal(err)
			}
			f.counts[c.Name] += c.By
		case sluice.ItemContext:
			f.contexts++
		case sluice.ItemMarker:
		default:
			b.Fatalf("an item of kind %d", r.Item.Kind)
		}
	}
}

// fact stores a fact about a person.
func (b *bed) fact(minor uint64, number int64, kind journey.FactKind, name, body string) {
	b.Helper()
	b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Position: sluice.Position{Major: 1, Minor: minor}}, Number: number, Kind: kind, Name: name, TimeMillis: b.clock.Now().UnixMilli(), Body: body}}})
}

// welcome is a pause, a split by the plan, and mails behind it.
const welcome = `
id: welcome
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: split}
  - {id: split, split: {if: {attribute: plan, is: equals, value: gold}, then: thanks, else: remind}}
  - {id: thanks, message: {template: x}}
  - {id: remind, message: {template: x}, next: later}
  - {id: later, delay: {for: 1h}, next: last}
  - {id: last, message: {template: x}}
`

// enterAll has facts let all people in.
func (b *bed) enterAll(people int) {
	b.Helper()
	b.enterAllAt(people, 1)
}

// enterAllAt does so by facts of a time, whose second names what people get. One of 0 is
// now, whenever that is.
func (b *bed) enterAllAt(people int, millis uint64) {
	b.Helper()
	var facts []journey.Fact
	for n := range people {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: millis, Minor: uint64(n) + 1}}, Number: int64(n) + 1, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
}

// Everybody is let in by a fact, waits, takes one way and gets the mail of that way
// once, also if a process takes over in the middle.
func TestEverybodyTakesOneWay(t *testing.T) {
	const people = 3000
	b := newBed(t, people)
	b.publish(welcome)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	if f := b.read(); len(f.sends) != 0 || f.counts["journey/welcome/pause/entered"] != people {
		t.Fatalf("%d mails before the pause is over, %d have entered", len(f.sends), f.counts["journey/welcome/pause/entered"])
	}
	b.clock.Move(time.Hour)
	p = b.open() // another process
	if worked, err := p.pass(t.Context()); err != nil || !worked {
		t.Fatal(worked, err)
	}
	p = b.open() // and another
	b.passes(p)
	f := b.read()
	if len(f.sends) != people || len(f.ids) != people {
		t.Fatalf("%d people have %d mails, want %d", len(f.sends), len(f.ids), people)
	}
	b.clock.Move(time.Hour)
	b.passes(p)
	f = b.read()
	for n := 1; n <= people; n++ {
		want := 2
		if n%3 == 0 {
			want = 1
		}
		if got := f.sends[fmt.Sprintf("u%d@example.com", n)]; got != want {
			t.Fatalf("person %d has %d mails, want %d", n, got, want)
		}
	}
	for name, want := range map[string]int64{"thanks/entered": 1000, "remind/passed": 2000, "split/passed/then": 1000, "last/passed": 2000} {
		if got := f.counts["journey/welcome/"+name]; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for _, in := range p.journeys {
		if next := in.dues.next(); next != never {
			t.Errorf("somebody is due at %d, all have finished", next)
		}
	}
}

// Who is due is looked for in turn: where a wave has ended, the next look begins. People
// before and behind that place are decided about together, each by the own profile.
func TestPeopleAreReadWhereverTheTurnIs(t *testing.T) {
	b := newBed(t, 3)
	b.publish(welcome)
	far := flow.ChunkRecords + 3
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: int64(far)}, Profile: profileOf(far)}}}})
	b.enterAll(3)
	b.fact(4, int64(far), journey.FactEvent, "signup", "")
	p := b.open()
	b.passes(p)
	p.journeys[0].dues.from = 1
	b.clock.Move(time.Hour)
	b.passes(p)
	f := b.read()
	for _, n := range []int{1, 2, 3, far} {
		if got := f.sends[fmt.Sprintf("u%d@example.com", n)]; got != 1 {
			t.Errorf("person %d has %d mails, want 1", n, got)
		}
	}
	if got := f.counts["journey/welcome/thanks/entered"]; got != 1 {
		t.Errorf("%d of 4 have the plan gold, want 1", got)
	}
}

// People who want no such mail, and people without an address, get none and go on.
func TestWhoWantsNoMailGetsNone(t *testing.T) {
	b := newBed(t, 0)
	profiles := map[int64]string{
		1: `{"external_id":"a","fields":{"email":"a@example.com"}}`,
		2: `{"fields":{"email":"b@example.com","email_subscribe":"unsubscribed"}}`,
		3: `{"fields":{"email":"c@example.com"},"groups":{"news":["unsubscribed",1]}}`,
		4: `{"fields":{"email":"d@example.com","email_subscribe":"opted_in"},"groups":{"news":["subscribed",1],"other":["unsubscribed",1]}}`,
		5: `{"external_id":"e"}`,
	}
	changes := &user.Changes{}
	for n, p := range profiles {
		changes.Put = append(changes.Put, user.Row{ID: user.ID{Number: n}, Profile: p})
	}
	b.apply(&store.Effect{Users: changes})
	b.publish(`
id: news
entry: {when: {event: signup}}
steps:
  - {id: news, message: {template: x, group: news}}
`)
	b.enterAll(5)
	b.passes(b.open())
	f := b.read()
	for name, want := range map[string]int{"a": 1, "b": 0, "c": 0, "d": 1} {
		if got := f.sends[name+"@example.com"]; got != want {
			t.Errorf("%s has %d mails, want %d", name, got, want)
		}
	}
	if f.counts["journey/news/news/left_out"] != 3 || f.counts["journey/news/news/passed"] != 5 {
		t.Errorf("counted %v, want 3 left out and 5 passed", f.counts)
	}
}

// status sets a journey's status and reads the journeys anew.
func (b *bed) status(id, status string) {
	b.Helper()
	j, err := b.store.Journey(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	j.Status = status
	if err := b.store.PutJourney(b.Context(), j); err != nil {
		b.Fatal(err)
	}
	if b.all, _, err = b.loader().Load(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// While a journey is paused nobody enters, nobody goes on and nobody gets mail, but
// people leave it; afterwards all goes on where it was.
func TestPaused(t *testing.T) {
	b := newBed(t, 10)
	j := b.publish(cart)
	b.publish(strings.Replace(strings.Replace(cart, "id: cart", "id: other", 1), "tags: cart", "tags: other", 1))
	for n := int64(1); n <= 4; n++ {
		b.fact(uint64(n), n, journey.FactEvent, "cart", `{"items":2}`)
	}
	b.passes(b.open())
	b.status("cart", journey.StatusPaused)
	b.fact(5, 5, journey.FactEvent, "cart", `{"items":2}`)
	b.fact(6, 1, journey.FactAttributes, "", `{"plan":["free","gold"]}`)
	b.fact(7, 2, journey.FactPurchase, "shoe", `{}`)
	b.clock.Move(25 * time.Hour)
	b.passes(b.open())
	if n := len(b.mails("cart")); n != 0 {
		t.Errorf("%d mails of a paused journey", n)
	}
	if n := len(b.mails("other")); n != 3 { // 2, who has bought, 3 and 4; 5 has entered just now
		t.Errorf("%d mails of the journey beside it, want 3", n)
	}
	got := b.records(j)
	if got[1].State != journey.StateExited || got[5].State != journey.StateNone || got[3].State != journey.StateInside {
		t.Errorf("while it is paused people are %+v", got)
	}
	b.status("cart", journey.StatusLive)
	b.passes(b.open())
	if n := len(b.mails("cart")); n != 3 { // 2, 3, 4
		t.Errorf("%d mails after the pause, want 3", n)
	}
}

// Who is inside a journey that is stopped is taken out, nobody enters, and nobody gets
// mail of it any more.
func TestStopped(t *testing.T) {
	const people = 2000
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people)
	b.passes(b.open())
	b.status("welcome", journey.StatusStopped)
	b.fact(people+1, people, journey.FactEvent, "signup", "")
	p := b.open()
	b.passes(p)
	b.clock.Move(2 * time.Hour)
	b.passes(p)
	for n, r := range b.records(j) {
		if r.State != journey.StateExited {
			t.Fatalf("person %d is %s", n, r.State)
		}
	}
	f := b.read()
	if len(f.sends) != 0 || f.counts["journey/welcome/pause/exited"] != people {
		t.Errorf("%d mails, %d have left; want none, %d", len(f.sends), f.counts["journey/welcome/pause/exited"], people)
	}
}

// Who has finished before a stop is taken out of no step, and is watched for a conversion no
// longer.
func TestStoppedBehindTheEnd(t *testing.T) {
	const people = 30
	b := newBed(t, people)
	j := b.publish(welcome + "conversions: [{name: bought, when: {event: bought}, within: 7d}]\n")
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(p) // a third have finished: those with the plan gold
	b.status("welcome", journey.StatusStopped)
	p = b.open()
	b.passes(p)
	commits := p.stats.Commits.Load()
	b.passes(p)
	states := make(map[journey.State]int)
	for _, r := range b.records(j) {
		if states[r.State]++; r.State == journey.StateFinished && r.Due != 0 {
			t.Errorf("somebody who has finished is due: %+v", r)
		}
	}
	f := b.read()
	if states[journey.StateFinished] != people/3 || states[journey.StateExited] != people-people/3 {
		t.Errorf("people are %v, want a third finished and the others exited", states)
	}
	if in, last := f.counts["journey/welcome/later/exited"], f.counts["journey/welcome/thanks/exited"]; in != people-people/3 || last != 0 {
		t.Errorf("%d were taken out of the pause, and %d of a step that they had passed", in, last)
	}
	if n := p.stats.Commits.Load() - commits; n != 0 {
		t.Errorf("%d commits more move nobody", n)
	}
}

// mails are the ids of the messages of a journey.
func (b *bed) mails(tag string) (ids []string) {
	b.Helper()
	for id := range b.read().tagged[tag] {
		ids = append(ids, id)
	}
	return ids
}

// A journey of a time lets in those who may enter, each once a run, also if a process
// takes over in the middle of it; of runs that were missed the last is made up for.
func TestRunsOfASchedule(t *testing.T) {
	const people = 5000
	b := newBed(t, people)
	j := b.publish(`
id: weekly
entry:
  when: {at: "2026-03-03 08:00", every: day}
  who: {attribute: plan, is: equals, value: gold}
  again_after: 1d
steps:
  - {id: mail, message: {template: x}}
`)
	p := b.open()
	b.passes(p)
	if n := len(b.records(j)); n != 0 {
		t.Fatalf("%d people have entered before the time", n)
	}
	b.clock.Move(24 * time.Hour) // the third of March, 9:00
	p = b.open()
	if worked, err := p.pass(t.Context()); err != nil || !worked {
		t.Fatal(worked, err)
	}
	b.passes(b.open()) // another process goes on
	want := people / 3
	f := b.read()
	if len(f.sends) != want || len(f.ids) != want {
		t.Fatalf("%d people have %d mails of the first run, want %d", len(f.sends), len(f.ids), want)
	}
	b.passes(b.open())
	if n := len(b.read().ids); n != want {
		t.Errorf("%d mails behind the run, want %d", n, want)
	}
	b.clock.Move(4 * 24 * time.Hour) // four runs are due
	b.passes(b.open())
	if n := len(b.read().ids); n != 2*want {
		t.Errorf("%d mails, want %d: of the first run and of the last", n, 2*want)
	}
}
