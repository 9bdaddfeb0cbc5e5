package user

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"sluice"
)

// ID names a user: the partition in which the user was made, and the number
// there, from 1. Neither ever changes, and no number is given twice.
type ID struct {
	Partition int
	Number    int64
}

// MaxNumber is the largest number that a user can have: SQLite has partition and number
// as one. A partition that gave 10,000 a second would have given so many after 3 years.
const MaxNumber = 1<<40 - 1

// IsZero reports whether it names nobody.
func (id ID) IsZero() bool { return id.Number == 0 }

// Compare orders ids by partition, then by number.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Partition, other.Partition), cmp.Compare(id.Number, other.Number))
}

// String returns the id as the API shows it (braze_id): 24 hexadecimal digits,
// 8 of the partition and 16 of the number.
func (id ID) String() string {
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], uint32(id.Partition))
	binary.BigEndian.PutUint64(b[4:], uint64(id.Number))
	return hex.EncodeToString(b[:])
}

// ParseID reads what String wrote.
func ParseID(s string) (ID, bool) {
	if len(s) != 24 {
		return ID{}, false
	}
	p, errP := strconv.ParseUint(s[:8], 16, 32)
	n, errN := strconv.ParseUint(s[8:], 16, 63)
	id := ID{Partition: int(p), Number: int64(n)}
	return id, errP == nil && errN == nil && p < sluice.MaxPartitions && n > 0 && id.String() == s
}

// Hash returns the number that decides a user's buckets (rule.Set.Match). It must
// never change.
func (id ID) Hash() uint64 { return uint64(id.Partition)<<56 ^ uint64(id.Number) }

// KeyKind says what a user is called by. The numbers are stored: never
// change one.
type KeyKind byte

// The kinds of keys. External ids and aliases belong to one user at most; an
// address may belong to many.
const (
	KeyExternal KeyKind = 1 // the customer's own id
	KeyAlias    KeyKind = 2 // one of many, under a label: AliasKey
	KeyEmail    KeyKind = 3 // profile.NormalEmail has been at it
	KeyPhone    KeyKind = 4 // profile.NormalPhone has been at it
	KeyUser     KeyKind = 5 // ID.String

	// KeyRemembered* belong to users that were made of an address alone, by a state
	// of mail or in a subscription group. A user who gets the address later gets
	// the state.
	KeyRememberedEmail KeyKind = 6
	KeyRememberedPhone KeyKind = 7
)

// Known reports whether it is one of these.
func (k KeyKind) Known() bool { return k >= KeyExternal && k <= KeyRememberedPhone }

// Key is what somebody calls a user.
type Key struct {
	Kind KeyKind
	Name string
}

// Bounds of users.
const (
	// MaxExternalIDBytes bounds an external id, an alias's label and its name:
	// 255 characters.
	MaxExternalIDBytes = 4 * 255

	// MaxKeyRunes bounds the name of a key. An alias may be shorter than its
	// parts allow, where many of their characters are written as two.
	MaxKeyRunes = 600

	// MaxProfileBytes bounds a profile: what would make one larger is refused. What a
	// person says about mail has MaxConsentBytes more: nobody is too large to leave.
	MaxProfileBytes = 4 << 20
	MaxConsentBytes = 256 << 10

	// MaxSharing bounds the users of one address that are read: of more than so
	// many, those with the lowest ids.
	MaxSharing = 100

	// MaxQuery bounds the keys and ids of one Query.
	MaxQuery = 65_536
)

// Remembered is the key of the user who was made of an address alone; false: k
// is no address.
func (k Key) Remembered() (Key, bool) {
	switch k.Kind {
	case KeyEmail:
		return Key{KeyRememberedEmail, k.Name}, true
	case KeyPhone:
		return Key{KeyRememberedPhone, k.Name}, true
	}
	return Key{}, false
}

// AliasKey is the key of an alias: its name is the JSON array [label, name].
func AliasKey(label, name string) Key {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode([2]string{label, name}); err != nil {
		panic(err) // two strings
	}
	return Key{Kind: KeyAlias, Name: strings.TrimSuffix(b.String(), "\n")}
}

// Partition is where updates, events and sends of a key are taken in, out of so many
// partitions: all of them in one, so that they keep their order. A user's number
// says the partition by itself. The hash is FNV-1a of the kind's byte and the name. It
// decides what stands in logs: never change it.
func (k Key) Partition(partitions int) int {
	if k.Kind == KeyUser {
		if id, ok := ParseID(k.Name); ok {
			return id.Partition % partitions
		}
	}
	const offset, prime = 2166136261, 16777619
	h := (uint32(offset) ^ uint32(k.Kind)) * prime
	for i := range len(k.Name) {
		h = (h ^ uint32(k.Name[i])) * prime
	}
	return int(h % uint32(partitions))
}

// Op is what an update does. The numbers are stored: never change one.
type Op byte

// The operations. What Name, App and Body are is said for each.
const (
	// OpAttributes sets attributes: Body is an object as profile.Check returns it.
	OpAttributes Op = 1

	// OpEvent counts a custom event: Name, App, TimeMillis (when it happened);
	// Body is its properties, an object, or empty.
	OpEvent Op = 2

	// OpPurchase counts a purchase: Name is the product, App, TimeMillis; Body is
	// {"currency": "EUR", "price": 9.5, "quantity": 1, "properties": {...}}.
	OpPurchase Op = 3

	// OpAlias gives the user another name: Body is an alias as AliasKey has it.
	// An alias that another user has stays with that user.
	OpAlias Op = 4

	// OpIdentify makes the user of an alias (or of an address) the one of the
	// external id Name. The user gets that id; if another user has it, the two are
	// merged into that one, unless both have aliases of one label. Body: "merge" takes over the whole profile, "none" only
	// the alias.
	OpIdentify Op = 5

	// OpMerge merges the user into another: Name is the kind of the other's key
	// (a digit) and the key, "1u-7". Body: empty, or MergeAgain. By a key of a user who
	// was merged away it merges nobody.
	OpMerge Op = 6

	// OpDelete erases the user. By a key of a user who was merged into another one
	// it erases nobody.
	OpDelete Op = 7

	// OpGroup sets the state in a subscription group: Name is the group, Body
	// "subscribed" or "unsubscribed". Of an address that nobody has it makes a
	// user who remembers it. App is empty, or EachOfAddress: of an address it is
	// about all who have it then, MaxSharing at most.
	OpGroup Op = 8

	// OpAbsorb is the other half of a merge, in the log of the user who stays:
	// Body is the profile of the other user, Name that user's id.
	OpAbsorb Op = 9

	// OpSubscribe sets whether somebody gets mail: Body is "opted_in", "subscribed"
	// or "unsubscribed", which becomes email_subscribe. Of an address it is about
	// all who have it, MaxSharing at most; of one that nobody has it makes a user
	// who remembers it. TimeMillis is when it was said, and Name whether others have
	// reported it (Reported) or it was said to us (Said; empty: when it is accepted).
	OpSubscribe Op = 10

	// OpSeen counts a custom event that has its row already: Name, App, TimeMillis.
	// OpBought does the same for a purchase, with the Body of OpPurchase. They create
	// nobody.
	OpSeen   Op = 11
	OpBought Op = 12

	// OpMailed tells journeys what happened to a mail of the user: Name is received,
	// opened or clicked, Body the mail (journey.Mailed). It creates nobody and changes
	// nobody.
	OpMailed Op = 13

	// OpEnter lets the user into a journey, if the user is there: Name is the journey,
	// Body the context, an object, or empty. OpPlace gives the user the place of a former
	// user in the journey Name: Body is a journey.Place. Both change no profile: they are
	// facts in the partition of the user.
	OpEnter Op = 14
	OpPlace Op = 15
)

// The last operation is NewestUserOp: else this does not compile. See Forms.
var _ = [1]struct{}{}[OpPlace-sluice.NewestUserOp]

// EachOfAddress is the App of an OpGroup that is about all who have its address. A
// program that does not know it changes one of them.
const EachOfAddress = "*"

// OfJourney reports whether it is about a journey alone.
func (op Op) OfJourney() bool { return op == OpEnter || op == OpPlace }

// OfEvent reports whether it counts an event that has its row already.
func (op Op) OfEvent() bool { return op == OpSeen || op == OpBought }

// MergeAgain is the Body of an OpMerge that has found no user to merge into. It has
// since been in the log that takes in that user's key, because the user may have
// been on the way there.
const MergeAgain = "again"

// The names of an OpSubscribe. An OpAttributes that has email_subscribe is Said, too.
const (
	// Reported: others say so, and their times decide (profile.Subscribe). The time is
	// that of the suppression that the report makes.
	Reported = "reported"

	// Said: it was said to us. The time is that of its acceptance, wherever it has been
	// forwarded since.
	Said = "said"
)

// Update is a change of one user, or a fact about one.
type Update struct {
	Op  Op
	Key Key

	// Address, if it is set: the update is for the user of Key if that user has the
	// address by now, and otherwise for the user who has it. So an update of an
	// address goes the way of the one before it that gave the address to a user.
	Address Key

	// IfGone: the update is for the user of Key, whatever addresses that user has.
	// Address is any key, by which a user is found or made only if the user of Key
	// is gone. So an update that was forwarded to an erased user is not lost.
	IfGone bool

	ExistingOnly bool  // creates nobody
	TimeMillis   int64 // when it happened, or was accepted
	Name         string

	// App is the application. Of an OpAttributes it is by what name a journey makes it, once:
	// a profile that has the name has made it (profile.Makes). Empty: it is made each time.
	App  string
	Body string
}

// ifGoneBit is that of Update.IfGone, beside the kind of its address.
const ifGoneBit = 1 << 7

// AppendUpdate appends a user update to a batch.
func AppendUpdate(batch []byte, u *Update) []byte {
	start := len(batch)
	how := byte(u.Address.Kind) << 1
	if u.ExistingOnly {
		how |= 1
	}
	if u.IfGone {
		how |= ifGoneBit
	}
	batch = append(batch, 0, 0, 0, 0, byte(sluice.ItemUser), byte(u.Op), byte(u.Key.Kind), how)
	batch = binary.LittleEndian.AppendUint64(batch, uint64(u.TimeMillis))
	for _, s := range [...]string{u.Key.Name, u.Name, u.App} {
		batch = sluice.AppendText(batch, s)
	}
	if u.Address.Kind != 0 {
		batch = sluice.AppendText(batch, u.Address.Name)
	}
	batch = append(batch, u.Body...)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// DecodeUpdate reads a user update. Its texts share memory with the payload,
// which must not be changed afterwards.
func DecodeUpdate(payload []byte, u *Update) error {
	const fixed = 3 + 8
	if len(payload) < fixed {
		return fmt.Errorf("decode user update: %w: %d bytes", sluice.ErrBatchBroken, len(payload))
	}
	u.Op, u.Key.Kind, u.ExistingOnly = Op(payload[0]), KeyKind(payload[1]), payload[2]&1 != 0
	u.Address, u.IfGone = Key{Kind: KeyKind(payload[2] &^ ifGoneBit >> 1)}, payload[2]&ifGoneBit != 0
	u.TimeMillis = int64(binary.LittleEndian.Uint64(payload[3:]))
	b := payload[fixed:]
	texts := [...]*string{&u.Key.Name, &u.Name, &u.App, &u.Address.Name}
	many := len(texts)
	if u.Address.Kind == 0 {
		many--
	}
	for _, s := range texts[:many] {
		var ok bool
		if *s, b, ok = sluice.CutText(b); !ok {
			return fmt.Errorf("decode user update: %w: a text is cut short", sluice.ErrBatchBroken)
		}
	}
	u.Body = unsafe.String(unsafe.SliceData(b), len(b))
	if !u.Key.Kind.Known() || u.Address.Kind != 0 && !u.Address.Kind.Known() {
		return fmt.Errorf("decode user update: it names users by keys of kind %d and %d, which this program does not know; was it written by a newer one?", u.Key.Kind, u.Address.Kind)
	}
	if u.TimeMillis < sluice.MinEventTimeMillis || u.TimeMillis > sluice.MaxEventTimeMillis {
		return fmt.Errorf("decode user update: time %d ms is outside the years 1970 to 9999", u.TimeMillis)
	}
	for _, text := range [...]string{u.Key.Name, u.Address.Name, u.Name, u.App, u.Body} { // no database takes another
		if !utf8.ValidString(text) {
			return fmt.Errorf("decode user update: %w: a text is not UTF-8", sluice.ErrBatchBroken)
		}
	}
	return nil
}

// Row is a user as stored.
type Row struct {
	ID            ID
	UpdatedMillis int64  // when the row was last written
	Profile       string // package profile's text; empty if MergedInto is set

	// MergedInto is the user that this one was merged into; zero: none.
	MergedInto ID
}

// KeyRow says whose a key is.
type KeyRow struct {
	Key Key
	ID  ID
}

// Forward is an item on its way to the log of another partition.
type Forward struct {
	From, To int    // partitions
	ID       int64  // rises within From
	Items    []byte // encoded, without a version byte
}

// NextForward is the number of a forward of a partition, behind the last one that its
// table or a log knows. It is at least the time: a database that goes back, and has
// forgotten some, gives none a second time. There is room for a thousand a millisecond.
func NextForward(last, nowMillis int64) int64 { return max(last+1, nowMillis<<forwardBits) }

const forwardBits = 10

// ForwardQuery says which items on their way are asked for.
type ForwardQuery struct {
	From      int
	To        int   // AnyPartition: whatever their partition is
	After     int64 // those with higher ids
	OwnBefore int64 // in ms: of those to From itself such that were written before
}

// AnyPartition as ForwardQuery.To asks for items to all partitions.
const AnyPartition = -1

// ForwardsBefore is a number that all forwards have a lesser one of which were written
// before a time, and of later ones none.
func ForwardsBefore(millis int64) int64 { return max(0, millis) << forwardBits }

// Changes is what a transaction does to users.
type Changes struct {
	Put         []Row // written whole
	Drop        []ID
	AddKeys     []KeyRow // ErrConflict if somebody has one already
	MoveKeys    []KeyRow // from any owner
	DropKeys    []KeyRow // unless somebody else has one by now
	AddAddress  []KeyRow // e-mail and phone; there already is no error
	DropAddress []KeyRow
	Numbers     map[int]Numbers // by partition
	Forward     []Forward
	Stay        []ID     // ErrConflict if one is gone or merged by now
	Erase       []string // the names that events have of users who are erased
}

// NumberJump is how far the user numbers of a partition are raised where the database may
// have lost users: behind a restore, and behind a gap.
const NumberJump = 1_000_000

// Numbers are the last ones that a partition has given.
type Numbers struct {
	User    int64 // to a user
	Forward int64 // to a Forward
}

// Query asks for users. At most MaxQuery keys and ids together.
type Query struct {
	Keys    []Key // of any kind but KeyUser
	IDs     []ID
	Numbers []int // partitions whose numbers are wanted

	// MaxBytes bounds the profiles that are read: the error is ErrTooManyBytes when a profile
	// goes beyond it. 0: no bound.
	MaxBytes int
}

// ErrTooManyBytes says that the users of a Query have profiles beyond its MaxBytes.
var ErrTooManyBytes = errors.New("the profiles of these users are too many bytes to be read at once")

// Answer is what was found; what is not there is left out. An address may
// have found several, MaxSharing at most.
type Answer struct {
	ByKey   map[Key][]ID
	Users   map[ID]Row // of ByKey and of IDs, and who took them over, over as many merges as there were
	Numbers map[int]Numbers
	Shared  map[Key]bool // addresses that more users have than were read
	Bytes   int          // of the profiles of Users
}

// Owner returns the user of an id, or the one it was merged into; false: there is
// none, or no more.
func (a *Answer) Owner(id ID) (Row, bool) {
	for range len(a.Users) + 1 {
		u, ok := a.Users[id]
		if !ok || u.MergedInto.IsZero() {
			return u, ok
		}
		id = u.MergedInto
	}
	return Row{}, false // a circle, which no merge makes
}

// Store is where users are kept. The stores of package sqlstore are ones;
// what is promised of Store's methods holds for these. They are written by
// Apply, as Effect.Users.
type Store interface {
	// Users returns users by their keys and ids, as of one moment.
	Users(ctx context.Context, q Query) (Answer, error)

	// Stored returns which of some events, MaxQuery at most, have a row.
	Stored(ctx context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error)

	// Sharing returns at most limit ids of those who have an address, in their
	// order, after one (zero: from the first).
	Sharing(ctx context.Context, address Key, after ID, limit int) ([]ID, error)

	// EachProfile calls f with the numbers and profiles of users of a partition,
	// in the order of their numbers, after a number, until f returns false, at
	// most limit times; those who were merged into another are left out. f must be
	// quick, as the database waits for it.
	EachProfile(ctx context.Context, partition int, after int64, limit int, f func(number int64, profile string) bool) error

	// ProfilesOf calls f with the numbers and profiles of some users of a partition,
	// MaxQuery at most, in no order, until f returns false; those who are not there, or
	// were merged into another, are left out. f must be quick, as the database waits for it.
	ProfilesOf(ctx context.Context, partition int, numbers []int64, f func(number int64, profile string) bool) error

	// Forwards returns at most limit items on their way, in the order of their ids. They
	// are fewer if these are large, and none only if there are none. Forwarded removes
	// those up to an id to a partition.
	Forwards(ctx context.Context, q ForwardQuery, limit int) ([]Forward, error)
	Forwarded(ctx context.Context, from, to int, id int64) error
}

// Finder finds users by how a key begins. The stores of package sqlstore are ones.
type Finder interface {
	// KeysFrom returns at most limit keys of a kind that begin with a text, in their
	// order, with whose they are. External ids and aliases are compared as they are;
	// addresses are kept in lower case.
	KeysFrom(ctx context.Context, kind KeyKind, prefix string, limit int) ([]KeyRow, error)
}
