package api

import (
	"time"

	"sluice/flow"
	"sluice/lib/meter"
	"sluice/mail"
	routing "sluice/mail/route"
	"sluice/mail/smtpd"
	"sluice/mail/spool"
	"sluice/track/land"
)

// Stats is a snapshot of what a process has done since it started, and of
// where it stands.
type Stats struct {
	// Counters: they only grow.
	Accepted   int64            // items taken in: routed to logs, or taken for a table
	Stored     int64            // rows committed
	Duplicates int64            // items left out because their id was there already
	Dead       int64            // dead letters committed
	Replayed   int64            // dead letters that were replayed here, of before too
	Conflicts  int64            // transactions refused because a cursor had moved
	Refused    int64            // transactions the database refused and that were repeated piece by piece
	Updates    int64            // updates of users committed, those of nobody included
	Ignored    int64            // of these, updates of nobody
	Users      int64            // users written
	Names      map[string]int64 // events committed, repeats included: of mail by name, others by kind

	CommitSeconds meter.Snapshot // transactions in the database

	// Stages are how long the other stages of a transaction took, by name: read,
	// encode, users, trim.
	Stages      map[string]meter.Snapshot
	CommitRows  meter.Snapshot // rows, repeats and dead letters of a transaction
	AppendItems meter.Snapshot // items of requests in a batch written to a log
	Redis       []RedisCalls   // a server

	LeaseChanges map[string]flow.Changes // by role
	Mirror       *Mirror                 // nil: the series are not mirrored
	SMTP         *smtpd.Snapshot         // nil: no mail is taken in by SMTP
	Returned     *Returned               // nil: no mail that comes back is
	Landing      *land.Snapshot          // nil: no opens and clicks come here

	// MailPauses is how often this process stopped mail by itself, FeedbackDropped how
	// many counts for that were dropped.
	MailPauses, FeedbackDropped int64
	MailStops                   int // selections of mail that are stopped

	// Gauges.
	Followers []Follower
	Margins   map[int]time.Duration // how far back the logs that this process stores keep what is stored, by partition
	Failing   map[string]bool       // of each follower that runs in this process: whether it does not get on

	ListMargin map[string]time.Duration // as Margins, of lists and hashes that go into tables
	Lists      []List
	Leases     map[string]int // held by this process, by role
	Processes  int            // alive, this one included

	ClockAhead float64 // how far this process's clock is ahead of Redis's, in seconds

	// Checkpoints are those of journeys; nil: this process moves nobody.
	Checkpoints *Checkpoints

	// Suppressed is how many entries of suppressions are in memory, and
	// SuppressionsAge how long ago it was known that there are no others.
	Suppressed      int
	SuppressionsAge float64 // in seconds

	// SuppressionsStale tells of each class whether its mail waits for them: they are
	// too old. nil: this process does not send.
	SuppressionsStale map[mail.Class]bool

	Webhooks *Posted // nil: no events are posted by this process

	// Streams are the streams of events that are open, and StreamMissed counts the events
	// that slow ones were told they missed.
	Streams      int
	StreamMissed int64

	// Domains are those that mail was sent from, a hundred at most; nil: nobody
	// looks at them.
	Domains []SenderDomain

	Routes           []routing.Snapshot // nil: this process does not send
	MarketingStopped bool

	// Where the time of mails went, by route, and what is pending in the lanes
	// that this process has. That is by priority, and how many sends wait for
	// their time.
	Mail    []spool.RouteProfile
	Waiting map[string]Waiting
	Later   int64
	Lost    int64 // sends that were to leave by the ledger alone, since it began

	// Bounds is how much is taken of each bound of mail that waits, 0 to 1 and beyond, by
	// its setting.
	Bounds map[string]float64

	// What the ledger says, of all processes: sends by class and state, and
	// those in doubt that an operator has to decide about. -1: the database
	// does not say.
	Sends   []mail.SendTotal
	InDoubt int64

	// InDoubtSchedules are scheduled mails that an operator has to release or drop.
	// -1: the database does not say.
	InDoubtSchedules int64

	// LostDoubts are those of them that were in no lane, up to mail.MaxLostCount; -1:
	// they could not be counted.
	LostDoubts int64

	Process string // its name in leases and marks

	// Of the file system of the data directory; size 0: not known.
	DiskFreeBytes, DiskSizeBytes uint64
}

// Waiting is what is pending in the lanes of a priority.
type Waiting struct {
	Sends         int64   // those under way among them; -1: not known
	OldestSeconds float64 // how long the oldest that nobody has taken waits; 0: there is none
}

// Mirror is what was done for the mirror of the series.
type Mirror struct {
	Took      meter.Snapshot // messages with documents
	Documents int64
	Errors    int64 // sessions that failed
}

// RedisCalls is what was asked of a server.
type RedisCalls struct {
	Server string // HOST:PORT, or a socket's path
	Took   meter.Snapshot
	Failed int64
}

// Follower is where a follower stands in one partition.
type Follower struct {
	Name       string
	Partition  int
	LagSeconds float64
	LagItems   int64 // -1: not known
	LogBatches int64 // in its log, the last few of which may be applied; -1: not known, or no log
}

// List is a foreign list.
type List struct {
	Name    string
	Waiting int64 // elements not taken yet; -1: not known
	Held    int64 // elements taken and not committed yet; -1: not known
}

// Checkpoints are what a process has written of where people are in journeys, and whom it
// could not move.
type Checkpoints struct {
	AgeSeconds float64 // for how long changes wait, at the longest; 0: none do
	Saved      int64
	Bytes      int64 // of records in them
	Failed     int64
	Recovered  int64 // partitions that Redis was given anew
	Stranded   int64 // looks at people in a version that is not in use
	Dropped    int64 // places of merged people that nobody could take over
}

// Posted is what was posted to webhooks. Counters only grow.
type Posted struct {
	Delivered, Failed int64 // requests
	GivenUp           int64 // batches
	Events            int64 // that were delivered
	LagSeconds        float64
}
