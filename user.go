package sluice

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// UserID names a user: the partition in which the user was made, and the number
// there, from 1. Neither ever changes, and no number is given twice.
type UserID struct {
	Partition int
	Number    int64
}

// IsZero reports whether it names nobody.
func (id UserID) IsZero() bool { return id.Number == 0 }

// Compare orders ids by partition, then by number.
func (id UserID) Compare(other UserID) int {
	return cmp.Or(cmp.Compare(id.Partition, other.Partition), cmp.Compare(id.Number, other.Number))
}

// String returns the id as the API shows it (braze_id): 24 hexadecimal digits,
// 8 of the partition and 16 of the number.
func (id UserID) String() string { return fmt.Sprintf("%08x%016x", id.Partition, id.Number) }

// ParseUserID reads what String wrote.
func ParseUserID(s string) (UserID, bool) {
	if len(s) != 24 {
		return UserID{}, false
	}
	p, errP := strconv.ParseUint(s[:8], 16, 32)
	n, errN := strconv.ParseUint(s[8:], 16, 63)
	id := UserID{Partition: int(p), Number: int64(n)}
	return id, errP == nil && errN == nil && p < MaxPartitions && n > 0 && id.String() == s
}

// Hash returns the number that decides a user's buckets (rule.Set.Match). It must
// never change.
func (id UserID) Hash() uint64 { return uint64(id.Partition)<<56 ^ uint64(id.Number) }

// UserKeyKind says what a user is called by. The numbers are stored: never
// change one.
type UserKeyKind byte

// The kinds of keys. External ids and aliases belong to one user at most; an
// address may belong to many.
const (
	KeyExternal UserKeyKind = 1 // the customer's own id
	KeyAlias    UserKeyKind = 2 // one of many, under a label: AliasKey
	KeyEmail    UserKeyKind = 3 // profile.NormalEmail has been at it
	KeyPhone    UserKeyKind = 4 // profile.NormalPhone has been at it
	KeyUser     UserKeyKind = 5 // UserID.String

	// KeyRemembered* belong to users that were made of an address alone, by a state
	// of mail or in a subscription group. A user who gets the address later gets
	// the state.
	KeyRememberedEmail UserKeyKind = 6
	KeyRememberedPhone UserKeyKind = 7
)

// Known reports whether it is one of these.
func (k UserKeyKind) Known() bool { return k >= KeyExternal && k <= KeyRememberedPhone }

// UserKey is what somebody calls a user.
type UserKey struct {
	Kind UserKeyKind
	Name string
}

// Bounds of users.
const (
	// MaxExternalIDBytes bounds an external id, an alias's label and its name:
	// 255 characters.
	MaxExternalIDBytes = 4 * 255

	// MaxUserKeyRunes bounds the name of a key. An alias may be shorter than its
	// parts allow, where many of their characters are written as two.
	MaxUserKeyRunes = 600

	// MaxProfileBytes bounds a profile: what would make one larger is refused.
	MaxProfileBytes = 4 << 20

	// MaxSharing bounds the users of one address that are read: of more than so
	// many, those with the lowest ids.
	MaxSharing = 100

	// MaxUserQuery bounds the keys and ids of one UserQuery.
	MaxUserQuery = 65_536
)

// Remembered is the key of the user who was made of an address alone; false: k
// is no address.
func (k UserKey) Remembered() (UserKey, bool) {
	switch k.Kind {
	case KeyEmail:
		return UserKey{KeyRememberedEmail, k.Name}, true
	case KeyPhone:
		return UserKey{KeyRememberedPhone, k.Name}, true
	}
	return UserKey{}, false
}

// AliasKey is the key of an alias: its name is the JSON array [label, name].
func AliasKey(label, name string) UserKey {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode([2]string{label, name}); err != nil {
		panic(err) // two strings
	}
	return UserKey{Kind: KeyAlias, Name: strings.TrimSuffix(b.String(), "\n")}
}

// Partition is where updates, events and sends of a key are taken in, out of so many
// partitions: all of them in one, so that they keep their order. A user's number
// says the partition by itself. The hash is FNV-1a of the kind's byte and the name. It
// decides what stands in logs: never change it.
func (k UserKey) Partition(partitions int) int {
	if k.Kind == KeyUser {
		if id, ok := ParseUserID(k.Name); ok {
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

// UserOp is what an update does. The numbers are stored: never change one.
type UserOp byte

// The operations. What Name, App and Body are is said for each.
const (
	// OpAttributes sets attributes: Body is an object as profile.Check returns it.
	OpAttributes UserOp = 1

	// OpEvent counts a custom event: Name, App, TimeMillis (when it happened);
	// Body is its properties, an object, or empty.
	OpEvent UserOp = 2

	// OpPurchase counts a purchase: Name is the product, App, TimeMillis; Body is
	// {"currency": "EUR", "price": 9.5, "quantity": 1, "properties": {...}}.
	OpPurchase UserOp = 3

	// OpAlias gives the user another name: Body is an alias as AliasKey has it.
	// An alias that another user has stays with that user.
	OpAlias UserOp = 4

	// OpIdentify makes the user of an alias (or of an address) the one of the
	// external id Name. The user gets that id; if another user has it, the two are
	// merged into that one. Body: "merge" takes over the whole profile, "none" only
	// the alias.
	OpIdentify UserOp = 5

	// OpMerge merges the user into another: Name is the kind of the other's key
	// (a digit) and the key, "1u-7". Body: empty, or MergeAgain.
	OpMerge UserOp = 6

	// OpDelete erases the user.
	OpDelete UserOp = 7

	// OpGroup sets the state in a subscription group: Name is the group, Body
	// "subscribed" or "unsubscribed". Of an address that nobody has it makes a
	// user who remembers it.
	OpGroup UserOp = 8

	// OpAbsorb is the other half of a merge, in the log of the user who stays:
	// Body is the profile of the other user, Name that user's id.
	OpAbsorb UserOp = 9

	// OpSubscribe sets whether somebody gets mail: Body is "opted_in", "subscribed"
	// or "unsubscribed", which becomes email_subscribe. Of an address it is about
	// all who have it, MaxSharing at most; of one that nobody has it makes a user
	// who remembers it.
	OpSubscribe UserOp = 10

	// OpSeen counts a custom event that has its row already: Name, App, TimeMillis.
	// OpBought does the same for a purchase, with the Body of OpPurchase. They create
	// nobody.
	OpSeen   UserOp = 11
	OpBought UserOp = 12
)

// The last operation is NewestUserOp: else this does not compile. See Forms.
var _ = [1]struct{}{}[OpBought-NewestUserOp]

// OfEvent reports whether it counts an event that has its row already.
func (op UserOp) OfEvent() bool { return op == OpSeen || op == OpBought }

// MergeAgain is the Body of an OpMerge that has found no user to merge into. It has
// since been in the log that takes in that user's key, because the user may have
// been on the way there.
const MergeAgain = "again"

// UserUpdate is a change of one user, or a fact about one.
type UserUpdate struct {
	Op  UserOp
	Key UserKey

	// Address, if it is set: the update is for the user of Key if that user has the
	// address by now, and otherwise for the user who has it. So an update of an
	// address goes the way of the one before it that gave the address to a user.
	Address UserKey

	// IfGone: the update is for the user of Key, whatever addresses that user has.
	// Address is any key, by which a user is found or made only if the user of Key
	// is gone. So an update that was forwarded to an erased user is not lost.
	IfGone bool

	ExistingOnly bool  // creates nobody
	TimeMillis   int64 // when it happened, or was accepted
	Name         string
	App          string
	Body         string
}

// ifGoneBit is that of UserUpdate.IfGone, beside the kind of its address.
const ifGoneBit = 1 << 7

// AppendUpdate appends a user update to a batch.
func AppendUpdate(batch []byte, u *UserUpdate) []byte {
	start := len(batch)
	how := byte(u.Address.Kind) << 1
	if u.ExistingOnly {
		how |= 1
	}
	if u.IfGone {
		how |= ifGoneBit
	}
	batch = append(batch, 0, 0, 0, 0, byte(ItemUser), byte(u.Op), byte(u.Key.Kind), how)
	batch = binary.LittleEndian.AppendUint64(batch, uint64(u.TimeMillis))
	for _, s := range [...]string{u.Key.Name, u.Name, u.App} {
		batch = AppendText(batch, s)
	}
	if u.Address.Kind != 0 {
		batch = AppendText(batch, u.Address.Name)
	}
	batch = append(batch, u.Body...)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// DecodeUpdate reads a user update. Its texts share memory with the payload,
// which must not be changed afterwards.
func DecodeUpdate(payload []byte, u *UserUpdate) error {
	const fixed = 3 + 8
	if len(payload) < fixed {
		return fmt.Errorf("decode user update: %w: %d bytes", ErrBatchBroken, len(payload))
	}
	u.Op, u.Key.Kind, u.ExistingOnly = UserOp(payload[0]), UserKeyKind(payload[1]), payload[2]&1 != 0
	u.Address, u.IfGone = UserKey{Kind: UserKeyKind(payload[2] &^ ifGoneBit >> 1)}, payload[2]&ifGoneBit != 0
	u.TimeMillis = int64(binary.LittleEndian.Uint64(payload[3:]))
	b := payload[fixed:]
	texts := [...]*string{&u.Key.Name, &u.Name, &u.App, &u.Address.Name}
	many := len(texts)
	if u.Address.Kind == 0 {
		many--
	}
	for _, s := range texts[:many] {
		var ok bool
		if *s, b, ok = CutText(b); !ok {
			return fmt.Errorf("decode user update: %w: a text is cut short", ErrBatchBroken)
		}
	}
	u.Body = unsafe.String(unsafe.SliceData(b), len(b))
	if !u.Key.Kind.Known() || u.Address.Kind != 0 && !u.Address.Kind.Known() {
		return fmt.Errorf("decode user update: it names users by keys of kind %d and %d, which this program does not know; was it written by a newer one?", u.Key.Kind, u.Address.Kind)
	}
	if u.TimeMillis < MinEventTimeMillis || u.TimeMillis > MaxEventTimeMillis {
		return fmt.Errorf("decode user update: time %d ms is outside the years 1970 to 9999", u.TimeMillis)
	}
	for _, text := range [...]string{u.Key.Name, u.Address.Name, u.Name, u.App, u.Body} { // no database takes another
		if !utf8.ValidString(text) {
			return fmt.Errorf("decode user update: %w: a text is not UTF-8", ErrBatchBroken)
		}
	}
	return nil
}

// UserRow is a user as stored.
type UserRow struct {
	ID            UserID
	UpdatedMillis int64  // when the row was last written
	Profile       string // package profile's text; empty if MergedInto is set

	// MergedInto is the user that this one was merged into; zero: none.
	MergedInto UserID
}

// KeyRow says whose a key is.
type KeyRow struct {
	Key UserKey
	ID  UserID
}

// Forward is an item on its way to the log of another partition.
type Forward struct {
	From, To int    // partitions
	ID       int64  // rises within From
	Items    []byte // encoded, without a version byte
}

// UserChanges is what a transaction does to users.
type UserChanges struct {
	Put         []UserRow // written whole
	Drop        []UserID
	AddKeys     []KeyRow // ErrConflict if somebody has one already
	MoveKeys    []KeyRow // from any owner
	DropKeys    []KeyRow // unless somebody else has one by now
	AddAddress  []KeyRow // e-mail and phone; there already is no error
	DropAddress []KeyRow
	Numbers     map[int]UserNumbers // by partition
	Forward     []Forward
	Stay        []UserID // ErrConflict if one is gone or merged by now
	Erase       []string // the names that events have of users who are erased
}

// UserNumbers are the last ones that a partition has given.
type UserNumbers struct {
	User    int64 // to a user
	Forward int64 // to a Forward
}

// UserQuery asks for users. At most MaxUserQuery keys and ids together.
type UserQuery struct {
	Keys    []UserKey // of any kind but KeyUser
	IDs     []UserID
	Numbers []int // partitions whose numbers are wanted
}

// UserAnswer is what was found; what is not there is left out. An address may
// have found several, MaxSharing at most.
type UserAnswer struct {
	ByKey   map[UserKey][]UserID
	Users   map[UserID]UserRow // of ByKey and of IDs, and who took them over, over as many merges as there were
	Numbers map[int]UserNumbers
	Shared  map[UserKey]bool // addresses that more users have than were read
}

// Owner returns the user of an id, or the one it was merged into; false: there is
// none, or no more.
func (a *UserAnswer) Owner(id UserID) (UserRow, bool) {
	for range len(a.Users) + 1 {
		u, ok := a.Users[id]
		if !ok || u.MergedInto.IsZero() {
			return u, ok
		}
		id = u.MergedInto
	}
	return UserRow{}, false // a circle, which no merge makes
}

// UserStore is where users are kept. The stores of package sqlstore are ones;
// what is promised of Store's methods holds for these. They are written by
// Apply, as Effect.Users.
type UserStore interface {
	// Users returns users by their keys and ids, as of one moment.
	Users(ctx context.Context, q UserQuery) (UserAnswer, error)

	// Stored returns which of some events, MaxUserQuery at most, have a row.
	Stored(ctx context.Context, events []EventKey) (map[EventKey]bool, error)

	// Sharing returns at most limit ids of those who have an address, in their
	// order, after one (zero: from the first).
	Sharing(ctx context.Context, address UserKey, after UserID, limit int) ([]UserID, error)

	// UserPage returns at most limit users of a partition, in the order of their
	// numbers, after a number; those who were merged into another are left out.
	UserPage(ctx context.Context, partition int, after int64, limit int) ([]UserRow, error)

	// EachProfile calls f with the numbers and profiles of users of a partition,
	// in the order of their numbers, after a number, until f returns false, at
	// most limit times; those who were merged into another are left out. It is
	// for who reads all users: UserPage with nothing to spare. f must be quick,
	// as the database waits for it.
	EachProfile(ctx context.Context, partition int, after int64, limit int, f func(number int64, profile string) bool) error

	// Forwards returns at most limit of a partition's items on their way, in the
	// order of their ids. Forwarded removes those up to an id to a partition.
	Forwards(ctx context.Context, from, limit int) ([]Forward, error)
	Forwarded(ctx context.Context, from, to int, id int64) error
}
