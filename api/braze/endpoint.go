package braze

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// Core is what calls change. A call has its own: it knows whose it is.
type Core interface {
	// Update writes changes of users and returns when they are durable, in the
	// order given for each key. It keeps nothing of them.
	Update(ctx context.Context, updates []user.Update) error

	// UpdateOnce is Update of a change that is asked for under a name: for a day one is
	// written. A repeat that has another content is not written either, if one was.
	UpdateOnce(ctx context.Context, name, content string, u user.Update) error

	// Submit hands in mail (mail.Submitter).
	Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error)

	// Cancel stops the sends of a message that have not left yet (spool.Canceller).
	Cancel(ctx context.Context, message string) (mail.Cancelled, error)

	// Stored reports whether the ledger has all mail that was handed in before a time
	// (spool.Canceller).
	Stored(ctx context.Context, beforeMillis int64) (bool, error)

	// Once remembers for a day that something of this name is asked for, with what
	// content. It returns when that was first so, and a name for Submit. same is
	// false if the content was another one then.
	Once(ctx context.Context, name, content string) (first time.Time, once string, same bool, err error)

	// Seen returns what Once has returned for a name before; the time is zero if it was
	// not asked for. It remembers nothing.
	Seen(ctx context.Context, name string) (first time.Time, once string, err error)
}

// Stores are what calls read and ask, of a program that runs; through them they also
// change schedules and suppressions.
type Stores struct {
	Users        user.Store
	Series       store.SeriesStore
	Segments     user.SegmentStore
	Templates    mail.TemplateStore
	Sends        mail.SendStore
	Schedules    mail.ScheduleStore
	Suppressions Suppressions

	// Applied returns when all updates of these keys that were written before are
	// applied to their users, or an error when ctx ends before that.
	Applied func(ctx context.Context, keys []user.Key) error

	// SenderRefused returns why no mail from an address is accepted, nil if it is.
	SenderRefused func(ctx context.Context, address string) error

	// Unlist takes addresses off providers' lists of blocked addresses. It returns
	// an error for each address that may still be on one.
	Unlist func(ctx context.Context, addresses []string) map[string]error
}

// Request is a call. Its body must stay unchanged until the reply is there.
type Request struct {
	Body  string // of a POST
	Query url.Values
	ID    string // of the path, where it has one: CampaignID
	Now   time.Time
	Core  Core
	Log   *slog.Logger
	Stores

	// Sender is who sends it, as sources of suppressions name the sender.
	Sender string
}

// Reply is the answer to a call: a JSON object.
type Reply struct {
	Status int
	Body   []byte

	// Accepted and Refused count the objects of the call that were written, and
	// that never will be.
	Accepted, Refused int
}

// Endpoint is a path and what answers it. The error of Answer is one of Core,
// or an *sluice.Error: ErrorBody is how it is told.
type Endpoint struct {
	Method, Path string
	Permission   key.Permission
	Limit        LimitName
	Answer       func(ctx context.Context, r *Request) (Reply, error)
}

// CampaignID is what paths call the id that they have.
const CampaignID = "campaign_id"

// Waiting are the paths of calls that may wait for seconds: until what they have written is
// applied, for a provider, or until the mail that they stop is stored.
var Waiting = []string{"/users/track/sync", transactionalPath, deleteSchedulePath, "/email/bounce/remove", "/email/spam/remove"}

const (
	transactionalPath  = "/transactional/v1/campaigns/{" + CampaignID + "}/send"
	deleteSchedulePath = "/messages/schedule/delete"
)

// Endpoints is the table of all calls.
func Endpoints() []Endpoint {
	const get, post = http.MethodGet, http.MethodPost
	return []Endpoint{
		{post, "/users/track", key.UsersTrack, LimitTrack, track},
		{post, "/users/track/sync", key.UsersTrack, LimitSync, trackSync},
		{post, "/users/identify", key.UsersIdentify, LimitIdentity, identify},
		{post, "/users/alias/new", key.UsersAliasNew, LimitIdentity, newAliases},
		{post, "/users/merge", key.UsersMerge, LimitIdentity, merge},
		{post, "/users/delete", key.UsersDelete, LimitIdentity, deleteUsers},
		{post, "/users/export/ids", key.UsersExportIDs, LimitExport, export},
		{post, "/subscription/status/set", key.SubscriptionStatusSet, LimitGroups, setGroup},
		{post, "/v2/subscription/status/set", key.SubscriptionStatusSet, LimitGroups, setGroups},
		{get, "/subscription/status/get", key.SubscriptionStatusGet, LimitOther, groupState},
		{get, "/subscription/user/status", key.SubscriptionStatusGet, LimitOther, userGroups},
		{get, "/events/list", key.EventsList, LimitLists, listNames(sluice.KindCustom, "events")},
		{get, "/events/data_series", key.EventsDataSeries, LimitOther, eventSeries},
		{get, "/purchases/product_list", key.PurchasesProductList, LimitLists, listNames(sluice.KindPurchase, "products")},
		{get, "/kpi/new_users/data_series", key.KPINewUsers, LimitOther, kpi(users.NewUser, "new_users")},
		{get, "/kpi/dau/data_series", key.KPIDAU, LimitOther, kpi(users.ActiveDay, "dau")},
		{get, "/kpi/mau/data_series", key.KPIMAU, LimitOther, mau},
		{get, "/segments/list", key.SegmentsList, LimitOther, listSegments},
		{post, "/messages/send", key.BrazeSend, LimitOther, sendMessages},
		{post, "/messages/schedule/create", key.ScheduleCreate, LimitOther, createSchedule},
		{post, "/messages/schedule/update", key.ScheduleUpdate, LimitOther, updateSchedule},
		{post, deleteSchedulePath, key.ScheduleDelete, LimitOther, deleteSchedule},
		{get, "/messages/scheduled_broadcasts", key.ScheduleBroadcasts, LimitOther, listScheduled},
		{post, transactionalPath, key.TransactionalSend, LimitNone, sendTransactional},
		{get, "/email/hard_bounces", key.EmailHardBounces, LimitOther, listEmails(mail.SuppressHardBounce, asHardBounced)},
		{get, "/email/unsubscribes", key.EmailUnsubscribe, LimitOther, listEmails(mail.SuppressUnsubscribe, asUnsubscribed)},
		{post, "/email/status", key.EmailStatus, LimitOther, setEmailState},
		{post, "/email/blocklist", key.EmailBlacklist, LimitOther, blocklist},
		{post, "/email/blacklist", key.EmailBlacklist, LimitOther, blocklist},
		{post, "/email/bounce/remove", key.EmailBounceRemove, LimitOther, removeEmails(mail.SuppressHardBounce, mail.SuppressSoftBounces)},
		{post, "/email/spam/remove", key.EmailSpamRemove, LimitOther, removeEmails(mail.SuppressComplaint)},
	}
}

// success is the message of every good reply: clients look for the word.
const success = "success"

// fatal is the reply to a call of which nothing was processed.
type fatal struct {
	Message string   `json:"message"`
	Errors  []string `json:"errors,omitempty"`
}

// refuse answers 400.
func refuse(message string, errors ...string) (Reply, error) {
	r := reply(http.StatusBadRequest, fatal{message, errors})
	return r, nil
}

// reply is one with a body that is encoded; the bodies of this package can be.
func reply(status int, body any) Reply {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // guarded by the server
	}
	return Reply{Status: status, Body: text}
}

// ErrorBody is the body of a reply that has nothing but a message.
func ErrorBody(message string) []byte { return reply(0, fatal{Message: message}).Body }

// Words of refusals that do not depend on the call.
const (
	BadRequest   = "Bad Request"
	AccessDenied = "Access Denied"
	NotFound     = "Not Found"
	RateLimited  = "Rate Limited"
)

// Lacks is the reply to a call for which a key has no permission. Clients look for the
// message; people read which permission it is.
func Lacks(p key.Permission) Reply {
	return reply(http.StatusForbidden, fatal{AccessDenied, []string{"the key has no permission " + string(p) + "; `sluice key create --permission` gives it, or braze for all of these calls"}})
}

// InvalidKey is the body of a 401, which says the key that was sent, or the
// beginning of it. It is never to be logged.
func InvalidKey(sent string) []byte {
	const most = 256
	return ErrorBody("Invalid API key: " + sent[:min(len(sent), most)])
}

// KeyIn returns what a body calls api_key, "" if it has none: old clients have
// their key there.
func KeyIn(body string) string {
	sent := ""
	c := cutObject(body)
	for c.Next() {
		if v, err := jsonscan.Scan(c.Value); c.Key == "api_key" && err == nil && v.Kind == jsonscan.String {
			sent = v.Text()
		}
	}
	return sent
}
