package users

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Update is an update with its place in the log.
type Update struct {
	user.Update
	Place sluice.Place

	// Event is what the row of an OpSeen or OpBought is known by, if the event has
	// an id of its own: a repeat of it, which has no row, does not count.
	Event sluice.EventKey
}

// Reader is where users are read.
type Reader interface {
	Users(ctx context.Context, q user.Query) (user.Answer, error)

	// Stored returns which of some events have a row, user.MaxQuery at most.
	Stored(ctx context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error)
}

// Result is what a unit's updates come to.
type Result struct {
	Changes *user.Changes
	Events  []store.StoredEvent // events and purchases of users found
	Facts   []journey.Fact      // what of it journeys ask for
	Counts  []sluice.Count      // users who are new, or active
	Dead    []Dead
	Ignored int // updates of nobody
}

// Dead is an update that cannot be applied.
type Dead struct {
	Update *Update
	Reason string
}

// Unit applies the updates of one transaction.
//
// The idea. All that the updates name is read at once. They are applied in
// memory, in their order, and each user that changed is written once. Only the
// store of a user's own partition changes that user, one transaction after the
// other. So what was read holds until it is written. An update may come in by a
// key of a user of another partition. Then it is forwarded: a row written in
// this transaction takes it to that partition's log.
//
// The invariants. Updates of one key keep their order, also when all are
// forwarded. A key is given to a user by inserting it: if another partition was
// faster, the transaction fails, and everything is read again. A key belongs to
// the user that it names or, after merges, to the user at the end of that chain
// of merges.
//
// A log that is read later may make the target of a merge. So a merge into
// nobody goes to the log of its key, and from there back, once.
//
// A user may be erased before a forwarded update arrives, and be made again
// meanwhile. So an update that makes users goes back to where its key is taken
// in.
//
// A request may give an address to a user and then name the user by that
// address. Such an update goes to that user's log, with both names. That log
// knows whether the user has the address by then; if not, the update is
// forwarded to where the address is taken in. Only there it may make a user:
// otherwise there would be two.
//
// A merge is two halves. The store of the user who goes writes a tombstone,
// gives its keys to the other user and forwards its profile. The store of the
// other user takes the profile in (profile.Merge). In between, updates by the
// keys of the first user arrive at the second, whose own changes count as had.
// So all orders in which the two logs are read give the same profile. The
// exceptions are increments, removals and edits of lists of what both have:
// those stay as they were at the user who stays. Two users who are merged into
// each other at one moment would both be gone. So the transaction of a merge
// also locks the user who stays.
//
// If a user's profile would be too large, only the updates that make it so
// become dead letters, and the rest is applied. The size is seen when the user
// is written. Then all is done once more, and each update is tried on a copy
// first. To try each at once would cost every user what only a full one needs.
//
// What was tried and dropped. A cache of profiles beside the pipeline of the
// store: it must be dropped with every lease, and it saves little. Reading
// 10,000 users costs less than a hundredth of a second. Locks on users in SQL:
// two stores that merge in opposite directions wait for each other.
type Unit struct {
	partitions int
	now        int64

	users   map[user.ID]*person
	keys    map[user.Key][]user.ID
	numbers map[int]*user.Numbers
	took    map[user.ID][]user.ID // whom each took over in this transaction
	handed  map[user.ID]*handed
	erased  map[user.Key]bool // e-mail addresses of erased users

	repeated map[*Update]bool // updates of events that count already

	careful bool   // each update is tried first: see sizeWith
	full    bool   // somebody's profile would be too large
	scratch []byte // of sizeWith

	facts facts // for journeys

	born []born    // room for new users, some of it taken
	ids  []user.ID // room for whose a key is

	result Result
	counts map[sluice.Count]int64 // without their By
	read   *user.Answer
}

// person is one of the users that were read, or are made.
type person struct {
	row     user.Row
	profile *profile.Profile // nil: not looked at yet, or merged
	gone    bool             // not there: erased, or never was
	dirty   bool
	before  addressKeys // as they are stored
	after   addressKeys // as they will be
	last    *Update     // that changed this user
	gained  *Update     // the last that changed an address, if journeys ask for changes
}

// Apply applies updates in their order. All were read from the logs of
// partitions that the caller owns. registered are the names of which facts are
// wanted; nil: none.
func Apply(ctx context.Context, store Reader, registered *journey.Registered, partitions int, now int64, updates []Update) (Result, error) {
	answer, err := read(ctx, store, queryOf(updates))
	if err != nil {
		return Result{}, fmt.Errorf("apply updates of users: %w", err)
	}
	repeated, err := repeats(ctx, store, updates, &answer)
	if err != nil {
		return Result{}, fmt.Errorf("apply events to users: %w", err)
	}
	u := newUnit(partitions, now, len(updates), &answer)
	u.repeated, u.facts = repeated, newFacts(registered)
	done, err := u.all(ctx, store, updates)
	if u.full {
		u = newUnit(partitions, now, len(updates), &answer)
		u.repeated, u.facts = repeated, newFacts(registered)
		u.careful = true
		done, err = u.all(ctx, store, updates)
	}
	if err != nil {
		return Result{}, fmt.Errorf("apply updates of users: %w", err)
	}
	return done, nil
}

// all applies all updates.
func (u *Unit) all(ctx context.Context, store Reader, updates []Update) (Result, error) {
	for i := range updates {
		u.apply(&updates[i])
	}
	return u.done(ctx, store)
}

// repeats returns which updates are of events that have a row from before, or are
// there twice. Only those whose user is there already are looked for.
func repeats(ctx context.Context, store Reader, updates []Update, a *user.Answer) (map[*Update]bool, error) {
	first := make(map[sluice.EventKey]*Update)
	var keys []sluice.EventKey
	var repeated map[*Update]bool
	add := func(up *Update) {
		if repeated == nil {
			repeated = make(map[*Update]bool)
		}
		repeated[up] = true
	}
	for i := range updates {
		up := &updates[i]
		if up.Event.ID == "" {
			continue
		}
		if first[up.Event] != nil {
			add(up)
			continue
		}
		first[up.Event] = up
		if len(a.ByKey[up.Key]) > 0 { // else this transaction makes the user, or nobody does
			keys = append(keys, up.Event)
		}
	}
	for piece := range slices.Chunk(keys, user.MaxQuery) {
		stored, err := store.Stored(ctx, piece)
		if err != nil {
			return nil, err
		}
		for k := range stored {
			add(first[k])
		}
	}
	return repeated, nil
}

// read asks for all that a query has, in pieces.
func read(ctx context.Context, store Reader, q user.Query) (user.Answer, error) {
	first := user.Query{Keys: q.Keys[:min(len(q.Keys), user.MaxQuery)], Numbers: q.Numbers}
	all, err := store.Users(ctx, first)
	if err != nil {
		return all, err
	}
	var pieces []user.Query
	for keys := range slices.Chunk(q.Keys[len(first.Keys):], user.MaxQuery) {
		pieces = append(pieces, user.Query{Keys: keys})
	}
	for ids := range slices.Chunk(q.IDs, user.MaxQuery) {
		pieces = append(pieces, user.Query{IDs: ids})
	}
	for _, piece := range pieces {
		more, err := store.Users(ctx, piece)
		if err != nil {
			return all, err
		}
		maps.Copy(all.ByKey, more.ByKey)
		maps.Copy(all.Users, more.Users)
	}
	return all, nil
}

// queryOf asks for all that updates name.
func queryOf(updates []Update) user.Query {
	keys := make(map[user.Key]bool, min(len(updates), mostMade))
	ids := make(map[user.ID]bool)
	numbers := make(map[int]bool)
	add := func(k user.Key) {
		if k.Kind != user.KeyUser {
			keys[k] = true
		} else if id, ok := user.ParseID(k.Name); ok {
			ids[id] = true
		}
	}
	for i := range updates {
		u := &updates[i]
		numbers[u.Place.Partition] = true
		add(u.Key)
		if u.Address.Name != "" {
			add(u.Address)
		}
		switch u.Op {
		case user.OpGroup, user.OpSubscribe:
			if k, ok := u.Key.Remembered(); ok {
				add(k)
			}
		case user.OpAlias:
			add(user.Key{Kind: user.KeyAlias, Name: u.Body})
		case user.OpIdentify:
			add(user.Key{Kind: user.KeyExternal, Name: u.Name})
		case user.OpMerge:
			if k, ok := MergeKey(u.Name); ok {
				add(k)
			}
		case user.OpAbsorb: // what became of the one who goes, and whose keys are those by now; what cannot be read becomes a dead letter later
			add(user.Key{Kind: user.KeyUser, Name: u.Name})
			if p, err := profile.Parse(u.Body); err == nil {
				for _, k := range keysOf(p) {
					add(k)
				}
			}
		}
	}
	return user.Query{Keys: slices.Collect(maps.Keys(keys)), IDs: slices.Collect(maps.Keys(ids)), Numbers: slices.Collect(maps.Keys(numbers))}
}

// MergeKey reads the key of the one who stays, as OpMerge has it.
func MergeKey(name string) (user.Key, bool) {
	if name == "" || name[0] < '1' || name[0] > '5' {
		return user.Key{}, false
	}
	return user.Key{Kind: user.KeyKind(name[0] - '0'), Name: name[1:]}, true
}

// MergeName is the Name of an OpMerge.
func MergeName(k user.Key) string { return strconv.Itoa(int(k.Kind)) + k.Name }

// mostMade bounds for how many new users room is made before it is known.
const mostMade = 16_384

func newUnit(partitions int, now int64, updates int, a *user.Answer) *Unit {
	made := min(updates, mostMade)
	u := &Unit{
		partitions: partitions, now: now,
		users:   make(map[user.ID]*person, max(len(a.Users), made)),
		keys:    make(map[user.Key][]user.ID, max(len(a.ByKey), made)),
		numbers: make(map[int]*user.Numbers, len(a.Numbers)),
		counts:  make(map[sluice.Count]int64),
		took:    make(map[user.ID][]user.ID),
		handed:  make(map[user.ID]*handed),
		erased:  make(map[user.Key]bool),
		read:    a,
		result:  Result{Changes: &user.Changes{}},
	}
	for id, row := range a.Users {
		u.users[id] = &person{row: row}
	}
	for k, ids := range a.ByKey { // of whom some may be no more
		u.keys[k] = slices.Clone(ids)
	}
	for p, n := range a.Numbers {
		u.numbers[p] = &n
	}
	return u
}

// find returns a user, or the user that it was merged into. nil: there is none.
func (u *Unit) find(id user.ID) (user.ID, *person) {
	for range len(u.users) + 1 { // no merge makes a circle
		x := u.users[id]
		if x == nil || x.gone {
			break
		}
		if x.row.MergedInto.IsZero() {
			return id, x
		}
		id = x.row.MergedInto
	}
	return id, nil
}

// look returns a user's profile, parsed once.
func (x *person) look() (*profile.Profile, error) {
	if x.profile == nil {
		p, err := profile.Parse(x.row.Profile)
		if err != nil {
			return nil, err
		}
		x.profile = p
		x.before = addresses(p)
	}
	return x.profile, nil
}
