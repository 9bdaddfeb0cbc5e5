package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"

	"golang.org/x/sync/errgroup"
)

// peopleName is the bench that looks for people.
const peopleName = "people"

// `bench people`: people are looked for among ten million, by the call that the page of
// the dashboard makes.
const (
	lookedPeople, lookedPeopleQuick = 10_000_000, 100_000
	lookedAsked, lookedAskedQuick   = 2_000, 100 // times, of each kind
	lookedConns                     = 4
	lookedEach                      = 1_000 // people at least whose addresses begin with the same name
	lookedFound                     = 50    // what an answer has at most, as the page asks for it
	lookedAnswerBytes               = 1 << 20

	wantLookedP99 = 0.3 // s
)

// lookedNames are the beginnings of addresses, in the order of their code points; as many
// people have each. Some are no ASCII, and some have what a pattern of SQL would take
// for its own.
var lookedNames = []string{
	"%5bbot%5d", "100%real", "a_b", "aab", "ada", "anna", "ben", "bruno", "carla", "clara", "david", "emil", "emma", "felix", "finn", "greta", "hanna", "ida",
	"jakob", "jonas", "jörg", "lara", "lena", "leon", "lukas", "maria", "marie", "max", "mia", "noah", "oskar", "paul", "paula", "peter", "sara", "simon", "sofia",
	"theo", "tom", "zoe", "ömer", "željka", "мария", "张伟",
}

// Steps by which people stand in another order than their addresses and their ids: what
// is found together is read from all over the table. Both are primes.
const (
	addressStep = 7_368_787
	idStep      = 6_700_417
)

// lookedBench is people that are looked for.
type lookedBench struct {
	*env
	name                string // of the database
	people              int64
	asked               int
	addressBack, idBack int64 // the steps' inverses
}

// inverse returns what undoes a step among so many people.
func inverse(step, people int64) int64 {
	return new(big.Int).ModInverse(big.NewInt(step), big.NewInt(people)).Int64()
}

// address is the rank-th address, in their order.
func (b *lookedBench) address(rank int64) string {
	return fmt.Sprintf("%s.%08d@%s", lookedNames[rank/lookedEach*lookedEach*int64(len(lookedNames))/b.people], rank, mailDomains[mix(uint64(rank))%uint64(len(mailDomains))])
}

// id is the rank-th external id, in their order.
func (b *lookedBench) id(rank int64) string {
	return fmt.Sprintf("c-%08x", rank*(math.MaxUint32/b.people))
}

// owner is whose the rank-th key is, the people in another order than the keys.
func (b *lookedBench) owner(rank, step int64) user.ID {
	return b.person(rank * step % b.people)
}

func (b *lookedBench) person(i int64) user.ID {
	parts := int64(b.run.partitions)
	return user.ID{Partition: int(i % parts), Number: i/parts + 1}
}

// profile is the i-th person's.
func (b *lookedBench) profile(i int64) string {
	return strings.Replace(strings.Replace(journeyProfile(i),
		fmt.Sprintf(`"external_id":"user-%d"`, i), `"external_id":"`+b.id(i*b.idBack%b.people)+`"`, 1),
		fmt.Sprintf("user-%d@example.com", i), b.address(i*b.addressBack%b.people), 1)
}

// runPeople is `sluice-bench people`.
func runPeople(ctx context.Context, r *run) (err error) {
	people := pick(r, int64(lookedPeople), lookedPeopleQuick)
	if r.users > 0 {
		people = int64(r.users)
	}
	asked := pick(r, lookedAsked, lookedAskedQuick)
	r.report.Settings["users"] = fmt.Sprintf("%d with an id and an address each", people)
	r.report.Settings["asked"] = fmt.Sprintf("%d times of each kind over %d connections, up to %d people an answer, each answer checked", asked, lookedConns, lookedFound)
	if err := r.goOn(); err != nil {
		return err
	}
	e, err := openEnv(ctx, r, r.does(partUsersMariaDB))
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	for _, part := range e.databases(ctx) {
		if !r.does(part.name) {
			continue
		}
		s, err := part.open()
		if err == nil {
			b := &lookedBench{e, part.name, people, asked, inverse(addressStep, people), inverse(idStep, people)}
			err = b.measure(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	for _, part := range usersParts {
		for _, k := range lookedKinds {
			r.report.limit(part+"_"+k.id+"_p99_s", part+"_"+k.id+"_p99", wantLookedP99)
		}
	}
	return nil
}

// measure fills a database, and asks the program that has it.
func (b *lookedBench) measure(ctx context.Context, s database) (err error) {
	if err := errors.Join(s.fresh(ctx), b.redis.Clear(ctx)); err != nil {
		return err
	}
	if err := b.fillPeople(ctx, s.url()); err != nil {
		return err
	}
	c, err := b.startSluice(ctx, s, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := b.run.watchBusy(ctx); err != nil {
		return err
	}
	b.run.report.Settings["busy_before_"+b.name] = fmt.Sprintf("%.0f %% of all cores", b.run.busy[len(b.run.busy)-1])
	for _, k := range lookedKinds {
		if err := b.askAll(ctx, c, &k); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", k.label, err), c.dead())
		}
	}
	return nil
}

// fillPeople stores the people in the order of their numbers, and then their ids and
// addresses, each in their own order.
func (b *lookedBench) fillPeople(ctx context.Context, at string) (err error) {
	db, err := sqlstore.Open(ctx, at, sqlstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	now := time.Now().UnixMilli()
	for _, of := range []struct {
		what string
		add  func(c *user.Changes, i int64)
	}{
		{"people", func(c *user.Changes, i int64) {
			c.Put = append(c.Put, user.Row{ID: b.person(i), UpdatedMillis: now, Profile: b.profile(i)})
		}},
		{"ids", func(c *user.Changes, i int64) {
			c.AddKeys = append(c.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: b.id(i)}, ID: b.owner(i, idStep)})
		}},
		{"addresses", func(c *user.Changes, i int64) {
			c.AddAddress = append(c.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: b.address(i)}, ID: b.owner(i, addressStep)})
		}},
	} {
		b.run.say("%s: store %d %s", b.name, b.people, of.what)
		for i := int64(0); i < b.people; {
			changes := &user.Changes{}
			for end := min(i+ruleStep, b.people); i < end; i++ {
				of.add(changes, i)
			}
			p, err := db.Prepare(&store.Effect{Users: changes})
			if err == nil {
				_, err = db.Apply(ctx, p)
			}
			if err != nil {
				return fmt.Errorf("store %s: %w", of.what, err)
			}
		}
	}
	return nil
}

// lookedKind is a kind of text that people are looked for by.
type lookedKind struct {
	id, label string
	by        string // what the first is found by; empty: nobody is found
	found     int    // how many there are at most; lookedFound: as many or more
	text      func(b *lookedBench, rank int64) string
}

// named is the beginning of all addresses of a name.
func named(name string) func(*lookedBench, int64) string {
	return func(*lookedBench, int64) string { return name }
}

// lookedKinds are all kinds. Of those of one text the first look is the one that is told
// apart from none; the others find what was read before.
var lookedKinds = []lookedKind{
	{"id", "an id", "external_id", 1, func(b *lookedBench, rank int64) string { return b.id(rank) }},
	{"own_id", "our own id", "braze_id", 1, func(b *lookedBench, rank int64) string { return b.person(rank).String() }},
	{"address", "an address", "email", 1, func(b *lookedBench, rank int64) string { return b.address(rank) }},
	{"upper", "an address in capitals", "email", 1, func(b *lookedBench, rank int64) string { return strings.ToUpper(b.address(rank)) }},
	{"rare", "a beginning that ten people have", "email", 10, func(b *lookedBench, rank int64) string {
		text, _, _ := strings.Cut(b.address(rank), "@")
		return text[:len(text)-1]
	}},
	{"many", "a beginning that a thousand people have", "email", lookedFound, func(b *lookedBench, rank int64) string {
		text, _, _ := strings.Cut(b.address(rank), "@")
		return text[:len(text)-3]
	}},
	{"letter", "one letter", "", lookedFound, func(_ *lookedBench, rank int64) string { return string("abcdefghijlmnopstz"[rank%18]) }},
	{"everybody", "how all ids begin", "external_id", lookedFound, named("c-")},
	{"other_script", "letters that are no ASCII", "email", lookedFound, func(_ *lookedBench, rank int64) string {
		return []string{"jö", "Ö", "ŽELJKA", "Мар", "张"}[rank%5]
	}},
	{"pattern", "what a pattern would take for its own", "email", lookedFound, func(_ *lookedBench, rank int64) string {
		return []string{"a_", "100%", "%5b"}[rank%3]
	}},
	{"no_pattern", "a pattern that nobody's address begins with", "", 0, func(_ *lookedBench, rank int64) string {
		return []string{"_", "%%", "%@example.com", "a%", "m_ria", `\`, "'", `" OR ""="`}[rank%8]
	}},
	{"nobody", "a text that finds nobody", "", 0, func(b *lookedBench, rank int64) string { return b.address(rank) + "x" }},
	{"long", "the longest text", "", 0, func(_ *lookedBench, rank int64) string {
		return strings.Repeat("𐍈", 254) + string(rune('a'+rank%26))
	}},
}

// askAll asks by texts of a kind, some at a time, and notes how long the answers took.
func (b *lookedBench) askAll(ctx context.Context, c *child, k *lookedKind) error {
	client := &http.Client{Timeout: answerWithin, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: lookedConns}}
	defer client.CloseIdleConnections()
	all := make([]latency, b.asked)
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range lookedConns {
		group.Go(func() error {
			for n := next.Add(1) - 1; n < int64(b.asked); n = next.Add(1) - 1 {
				took, err := b.ask(ctx, client, c, k, k.text(b, int64(mix(uint64(n))%uint64(b.people))))
				if err != nil {
					return err
				}
				all[n] = latency{took.Seconds(), 1}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r, id, label := b.run.report, b.name+"_"+k.id, b.name+", "+k.label
	worst := slices.MaxFunc(all, func(a, b latency) int { return cmp.Compare(a.seconds, b.seconds) }).seconds
	r.add(id+"_p50", label+", median", "s", percentile(all, 0.5))
	r.add(id+"_p99", label+", p99", "s", percentile(all, 0.99))
	r.add(id+"_max", label+", the longest", "s", worst)
	b.run.say("%s: p50 %s s, p99 %s s, at most %s s", label, number(percentile(all, 0.5)), number(percentile(all, 0.99)), number(worst))
	return nil
}

// ask looks for people, and checks who was found.
func (b *lookedBench) ask(ctx context.Context, client *http.Client, c *child, k *lookedKind, text string) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/users?q="+url.QueryEscape(text), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+benchRootKey)
	started := time.Now()
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, lookedAnswerBytes))
	took := time.Since(started)
	var said struct {
		Users []struct {
			FoundBy    string `json:"found_by"`
			ExternalID string `json:"external_id"`
			Email      string `json:"email"`
			BrazeID    string `json:"braze_id"`
		}
		More bool
	}
	if err = errors.Join(err, answer.Body.Close()); err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("look for %q: %s: %.200s: %w", text, answer.Status, body, err)
	}
	if len(said.Users) != k.found || said.More != (k.found == lookedFound) {
		return 0, fmt.Errorf("the run is void: %d people are found by %q, wanted %d: %.200s", len(said.Users), text, k.found, body)
	}
	for _, u := range said.Users {
		begins := map[string]string{"external_id": u.ExternalID, "email": strings.ToUpper(u.Email), "braze_id": u.BrazeID}[u.FoundBy]
		if u.FoundBy == "email" {
			text = strings.ToUpper(text)
		}
		if k.by != "" && u.FoundBy != k.by || !strings.HasPrefix(begins, text) {
			return 0, fmt.Errorf("the run is void: %q is found by %q (%s)", u, text, u.FoundBy)
		}
	}
	return took, nil
}
