package api

import (
	"context"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/journey/timeline"
	"sluice/mail"
	"sluice/mail/suppress"
	"sluice/store"
	"sluice/track/feed"
	"sluice/track/webhook"
	"sluice/user"
	"sluice/user/consent"
	"sluice/user/segment"
)

// Program is what the HTTP server asks. Its methods are called from several
// goroutines at once and answer from memory or within a second.
type Program interface {
	// Ready returns nil, or why the program cannot do its work now. Several
	// reasons are joined (errors.Join), each naming what is not ready first:
	// "redis: ...", "database: ...", "leases: ...", "follower store: ...".
	Ready() error

	// Margin returns how far back the database may go without a gap, by the logs
	// that this process stores; known: it stores some.
	Margin() (covered time.Duration, known bool)

	// ListMargin is Margin of the lists, and hashes, that it stores in tables.
	ListMargin() (covered time.Duration, known bool)

	// Stats returns a snapshot of the counters.
	Stats() Stats

	// Services returns what requests are served with: NotRunning while the program
	// does not run.
	Services() *Services
}

// Services are the parts of a running program that requests need. A server
// takes them once for a request. All are there while the program runs, but for
// those that say when they are nil.
type Services struct {
	Intake       *ingest.Intake // where events go; nil as soon as the program stops
	Keys         store.KeyStore
	Accounts     Accounts // who may sign in
	AccountStore store.AccountStore
	Consent      *consent.Service // knows the forms of double opt-in
	Series       store.SeriesStore
	Reactions    store.ReactionStore
	Users        user.Store
	Finder       user.Finder
	Timeline     *timeline.Reader // what is known of one person
	Segments     user.SegmentStore
	Scanner      *segment.Scanner // finds who is in a segment
	Templates    mail.TemplateStore
	Schedules    mail.ScheduleStore // mail for a time to come
	Journeys     *desk.Desk

	Suppressions *suppress.Service // who is not mailed
	Submitter    mail.Submitter    // takes messages in
	Sends        mail.SendStore    // knows what became of them
	Canceller    Canceller         // stops them
	Ledger       mail.LedgerStore
	Decider      Decider  // takes what somebody decides about mails in doubt
	Operator     Operator // stops mail and purges it
	Domains      DomainLooker
	Mailboxes    Mailboxes // the built-in ones of this process
	Tracks       bool      // mail is tracked, unless it says otherwise

	Imports  Imports          // files of events and users
	Groups   store.GroupStore // subscription groups that have a name
	Settings Settings         // nil: they are not known

	Webhooks    *webhook.Service
	Feed        *feed.Heads // how far what streams show is stored
	DeadLetters DeadLetters

	// Replay does again what has become a dead letter, and removes it.
	Replay func(ctx context.Context, id int64) error

	// Applied returns when what was written to the logs of these keys before is
	// applied to their users, or why that cannot be said.
	Applied func(ctx context.Context, keys []user.Key) error

	// Unlist takes addresses off providers' lists of whom they mail no more, and
	// says of which it could not.
	Unlist func(ctx context.Context, addresses []string) map[string]error

	// SenderRefused returns why no mail from an address is accepted, nil: it is.
	SenderRefused func(ctx context.Context, address string) error

	// WaitsFor returns why the routes do not work that would take a mail, one line
	// each, as far as this process has tried them. route is the one that it asks for, or empty.
	WaitsFor func(to string, class mail.Class, route string) []string
}

// DeadLetters are items that could not be applied. Every store.Store has them.
type DeadLetters interface {
	DeadLetters(ctx context.Context, after int64, limit int) ([]sluice.DeadLetter, error)
	DeadLetter(ctx context.Context, id int64) (sluice.DeadLetter, error)
	DropDeadLetter(ctx context.Context, id int64) error
}

// NotRunning are the services of a program that starts or stops.
var NotRunning = &Services{
	Applied:       func(context.Context, []user.Key) error { return errNotRunning },
	Unlist:        func(context.Context, []string) map[string]error { return nil }, // nothing was removed here either
	SenderRefused: func(context.Context, string) error { return nil },
	WaitsFor:      func(string, mail.Class, string) []string { return nil },
}
