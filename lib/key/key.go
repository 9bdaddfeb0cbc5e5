package key

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The text of a key is slk_ID_SECRET. The prefix lets scanners of leaked
// secrets find it. The id is public, so that logs and lists can name a key. The
// secret is 256 random bits. Both are in lower case without punctuation, so
// that a double click selects the whole.
//
// A key is stored as the SHA-256 of its whole text. A slow hash would add
// nothing: there are 2^256 secrets, not a dictionary of them, and every
// request would pay.
const (
	prefix      = "slk_"
	idBytes     = 10 // 16 characters
	secretBytes = 32 // 52 characters

	// IDChars and TextChars are the lengths of an id and of a whole key.
	IDChars   = 16
	TextChars = len(prefix) + IDChars + 1 + 52

	// MaxNameBytes bounds what a key is called.
	MaxNameBytes = 100
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Hash is what is stored of a key.
type Hash [sha256.Size]byte

// New makes a key: its public id and its whole text, which is shown once.
func New() (id, text string) {
	random := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	id = encoding.EncodeToString(random[:idBytes])
	return id, prefix + id + "_" + encoding.EncodeToString(random[idBytes:])
}

// ID returns the id in a key's text, and whether the text has a key's form.
func ID(text string) (id string, ok bool) {
	if len(text) != TextChars || !strings.HasPrefix(text, prefix) || text[len(prefix)+IDChars] != '_' {
		return "", false
	}
	id = text[len(prefix) : len(prefix)+IDChars]
	return id, IsID(id) && plain(text[len(prefix)+IDChars+1:])
}

// IsID reports whether a text has the form of an id.
func IsID(s string) bool { return len(s) == IDChars && plain(s) }

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// HashOf returns the hash of a key's text.
func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

// Equal compares two hashes in a time that does not depend on how much of them
// is alike.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// Permission is a word for what a key may do.
type Permission string

// The permissions.
const (
	EventsWrite    Permission = "events:write"
	CountersWrite  Permission = "counters:write"
	SeriesRead     Permission = "series:read"
	SegmentsRead   Permission = "segments:read"
	SegmentsWrite  Permission = "segments:write"
	TemplatesRead  Permission = "templates:read"
	TemplatesWrite Permission = "templates:write"
	JourneysRead   Permission = "journeys:read"
	JourneysWrite  Permission = "journeys:write"
	JourneysEnter  Permission = "journeys:enter"
	MetricsRead    Permission = "metrics:read"
	OptInWrite     Permission = "optin:write"
	ConsentWrite   Permission = "consent:write"
	MessagesSend   Permission = "messages:send"
	SendingRead    Permission = "sending:read"
	SendingWrite   Permission = "sending:write"
	MailboxesRead  Permission = "mailboxes:read"
	Admin          Permission = "admin"

	// AccountsManage is as good as all: who makes accounts and keys can make one with
	// any permission.
	AccountsManage Permission = "accounts:manage"

	// StatusRead is for the lists of the dashboard.
	StatusRead Permission = "status:read"

	LedgerRead  Permission = "ledger:read"
	LedgerWrite Permission = "ledger:write"

	SuppressionsRead  Permission = "suppressions:read"
	SuppressionsWrite Permission = "suppressions:write"

	DomainsRead Permission = "domains:read"

	GroupsRead  Permission = "groups:read"
	PeopleRead  Permission = "people:read"
	GroupsWrite Permission = "groups:write"

	WebhooksRead  Permission = "webhooks:read"
	WebhooksWrite Permission = "webhooks:write"
	EventsRead    Permission = "events:read"

	ImportsRead  Permission = "imports:read"
	ImportsWrite Permission = "imports:write"
)

// The permissions of calls of Braze's REST API, by the names that its users
// know.
const (
	UsersTrack            Permission = "users.track"
	UsersIdentify         Permission = "users.identify"
	UsersAliasNew         Permission = "users.alias.new"
	UsersMerge            Permission = "users.merge"
	UsersDelete           Permission = "users.delete"
	UsersExportIDs        Permission = "users.export.ids"
	SubscriptionStatusSet Permission = "subscription.status.set"
	SubscriptionStatusGet Permission = "subscription.status.get"
	EventsList            Permission = "events.list"
	EventsDataSeries      Permission = "events.data_series"
	PurchasesProductList  Permission = "purchases.product_list"
	KPINewUsers           Permission = "kpi.new_users.data_series"
	KPIDAU                Permission = "kpi.dau.data_series"
	KPIMAU                Permission = "kpi.mau.data_series"
	SegmentsList          Permission = "segments.list"
	BrazeSend             Permission = "messages.send"
	ScheduleCreate        Permission = "messages.schedule.create"
	ScheduleUpdate        Permission = "messages.schedule.update"
	ScheduleDelete        Permission = "messages.schedule.delete"
	ScheduleBroadcasts    Permission = "messages.schedule_broadcasts"
	TransactionalSend     Permission = "transactional.send"
	EmailHardBounces      Permission = "email.hard_bounces"
	EmailUnsubscribe      Permission = "email.unsubscribe" // singular, unlike the path
	EmailStatus           Permission = "email.status"
	EmailBlacklist        Permission = "email.blacklist"
	EmailBounceRemove     Permission = "email.bounce.remove"
	EmailSpamRemove       Permission = "email.spam.remove"
)

// Permissions is the table of all permissions, with what each allows.
var Permissions = []struct {
	Word   Permission
	Allows string
}{
	{EventsWrite, "post events to /v1/events"},
	{ConsentWrite, "with events:write: have `subscribed` lift what held mail back, and `complained` stop transactional mail too"},
	{CountersWrite, "post counters to /v1/counters"},
	{ImportsRead, "read /v1/imports, and see what a file would become"},
	{ImportsWrite, "import files of events, whose consent counts, and of users; undo imports"},
	{SeriesRead, "read /v1/series and /v1/reactions"},
	{SegmentsRead, "read /v1/segments, who is in them, and what explains it: values of users"},
	{SegmentsWrite, "make, change and archive segments"},
	{TemplatesRead, "read /v1/templates, and preview them: values of users"},
	{TemplatesWrite, "make, change and archive templates"},
	{JourneysRead, "read /v1/journeys, check documents, see where users are in them and why: values of users"},
	{JourneysEnter, "let people into journeys"},
	{JourneysWrite, "make, change, publish, pause, stop and archive journeys"},
	{SuppressionsRead, "read /v1/suppressions, and ask /v1/suppressions/check"},
	{SuppressionsWrite, "add and remove suppressions"},
	{DomainsRead, "look at sender domains by /v1/domains"},
	{GroupsRead, "read /v1/groups: subscription groups that have a name"},
	{GroupsWrite, "name subscription groups, and say which people may choose"},
	{WebhooksRead, "read /v1/webhooks, and what was posted"},
	{WebhooksWrite, "make, change, test, replay and delete webhooks: such a key can have all events"},
	{EventsRead, "read /v1/events/stream: all events, as they come"},
	{MetricsRead, "read /metrics, /v1/profile and /v1/status, where they are not open"},
	{MessagesSend, "hand in messages to be mailed, by SMTP or to /v1/messages, see what becomes of them, cancel them"},
	{LedgerRead, "read /v1/ledger, the page /ledger, and who the mails in doubt are to"},
	{LedgerWrite, "decide what becomes of mails in doubt, and drop or replay dead letters"},
	{SendingRead, "read /v1/sending: what mail is stopped"},
	{SendingWrite, "stop mail, let it go on, and purge it"},
	{MailboxesRead, "read the mails in the built-in mailboxes, with all that they say"},
	{OptInWrite, "get the link to be mailed from /v1/optin"},
	{Admin, "read /debug/pprof"},
	{StatusRead, "read /v1/overview, its stream, /v1/sends and /v1/dead: how all stands, and who was mailed"},
	{PeopleRead, "look for people at /v1/users, and read what happened to one: events, mails, journeys, consent"},
	{AccountsManage, "make, change and remove accounts and keys, and read the audit log"},
	{UsersTrack, "post to /users/track and /users/track/sync"},
	{UsersIdentify, "post to /users/identify"},
	{UsersAliasNew, "post to /users/alias/new"},
	{UsersMerge, "post to /users/merge"},
	{UsersDelete, "post to /users/delete"},
	{UsersExportIDs, "post to /users/export/ids"},
	{SubscriptionStatusSet, "post to /subscription/status/set, and to /v2"},
	{SubscriptionStatusGet, "read /subscription/status/get and /subscription/user/status"},
	{EventsList, "read /events/list"},
	{EventsDataSeries, "read /events/data_series"},
	{PurchasesProductList, "read /purchases/product_list"},
	{KPINewUsers, "read /kpi/new_users/data_series"},
	{KPIDAU, "read /kpi/dau/data_series"},
	{KPIMAU, "read /kpi/mau/data_series"},
	{SegmentsList, "read /segments/list"},
	{BrazeSend, "post to /messages/send: mail to users"},
	{ScheduleCreate, "post to /messages/schedule/create"},
	{ScheduleUpdate, "post to /messages/schedule/update"},
	{ScheduleDelete, "post to /messages/schedule/delete"},
	{ScheduleBroadcasts, "read /messages/scheduled_broadcasts"},
	{TransactionalSend, "post to /transactional/v1/campaigns/ID/send: mail to one user"},
	{EmailHardBounces, "read /email/hard_bounces"},
	{EmailUnsubscribe, "read /email/unsubscribes"},
	{EmailStatus, "post to /email/status"},
	{EmailBlacklist, "post to /email/blocklist, and to /email/blacklist"},
	{EmailBounceRemove, "post to /email/bounce/remove"},
	{EmailSpamRemove, "post to /email/spam/remove"},
}

// Words that stand for several permissions where a key is made. A key keeps those that
// there are then: a later version gives it no more.
const (
	Braze = "braze" // all calls of Braze's REST API
	All   = "all"
)

// ofBraze reports whether a permission is of a call of Braze's REST API: only those
// have a dot.
func (p Permission) ofBraze() bool { return strings.Contains(string(p), ".") }

// Words returns the permissions of the table: our own, and those of calls of Braze's
// REST API.
func Words() (ours, braze []string) {
	for _, row := range Permissions {
		if row.Word.ofBraze() {
			braze = append(braze, string(row.Word))
		} else {
			ours = append(ours, string(row.Word))
		}
	}
	return ours, braze
}

// ParsePermissions reads words separated by commas. Each must be in the table, or be
// Braze or All.
func ParsePermissions(text string) ([]Permission, error) {
	var all []Permission
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		found := false
		for _, row := range Permissions {
			if word != All && string(row.Word) != word && (word != Braze || !row.Word.ofBraze()) {
				continue
			}
			if found = true; !slices.Contains(all, row.Word) {
				all = append(all, row.Word)
			}
		}
		if !found {
			ours, braze := Words()
			known := fmt.Sprintf("known are %s (all of Braze's API), %s, %s, %s", Braze, All, strings.Join(ours, ", "), strings.Join(braze, ", "))
			if word == "" {
				return nil, errors.New("a permission is empty; " + known)
			}
			return nil, fmt.Errorf("unknown permission %q; %s", word, known)
		}
	}
	return all, nil
}

// Identity is the sender of a request: what a handler learns of a key.
type Identity struct {
	ID   string // of the key; RootID for the root key
	Name string

	root        bool
	permissions []Permission
}

// Bounded is the id under which what is bounded for each key is counted: empty of
// the root key, which is the operator's own.
func (i Identity) Bounded() string {
	if i.root {
		return ""
	}
	return i.ID
}

// RootID is the identity of the root key. No key's id looks like it.
const RootID = "root"

// Root is the identity of a request with the root key.
func Root() Identity { return Identity{ID: RootID, Name: "root key", root: true} }

// NewIdentity is the identity of a key. permissions are its words as they are
// stored; unknown ones, of a later version, allow nothing here.
func NewIdentity(id, name string, permissions []string) Identity {
	i := Identity{ID: id, Name: name}
	for _, p := range permissions {
		i.permissions = append(i.permissions, Permission(p))
	}
	return i
}

// May reports whether the key has a permission.
func (i *Identity) May(p Permission) bool { return i.root || slices.Contains(i.permissions, p) }
