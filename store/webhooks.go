package store

import (
	"context"

	"sluice"
)

// Bounds of webhooks out.
const (
	MaxWebhooks      = 32
	MaxWebhookURL    = 2048
	MaxWebhookBatch  = 1000 // events in a request
	MaxWebhookTypes  = 100
	MaxWebhookReason = 500 // bytes of a reason, and of the error of an attempt

	// WebhookSuccesses and WebhookFailures are how many attempts of an endpoint are
	// kept, the newest of each.
	WebhookSuccesses = 20
	WebhookFailures  = 500
)

// The states of a webhook. Only one that is on gets events; the others keep their places.
const (
	WebhookOn       = "on"
	WebhookOff      = "off"      // an operator has switched it off
	WebhookFailing  = "failing"  // switched off: nothing has reached it for too long
	WebhookGone     = "gone"     // switched off: it has answered 410
	WebhookRestored = "restored" // switched off: the database is one of before
)

// Webhook is an endpoint that events are posted to.
type Webhook struct {
	ID, URL       string
	Types         []string // KIND or KIND.NAME, such as mail.delivered; empty: all events
	Format        string
	Batch         int // events in a request, at most
	Status        string
	Reason        string // of the status
	Revision      int64  // counts the changes that people make
	Secret        int    // the number of its secret, which rises with each rotation
	SecretMark    string // of the secret itself, by which another one is found out
	RotatedMillis int64  // when the secret before it was replaced; 0: never
	FailingMillis int64  // since when its batches fail and nothing has reached it; 0: nothing is known to fail
	CreatedMillis int64
	UpdatedMillis int64
}

// WebhookLane is how far the feed of a partition has been posted to an endpoint.
type WebhookLane struct {
	Webhook string
	At      sluice.Place // up to here all is delivered, or was given up

	// To is the end of the batch behind At that is posted, and posted again until it is
	// delivered: it names the message. The zero Place: there is none.
	To          sluice.Place
	Attempts    int   // that have failed, of this batch
	SinceMillis int64 // when the first of them did
	DueMillis   int64 // when it is tried again
}

// WebhookDelivery is an attempt, as it is kept. Its slot is where: another one in the same
// slot takes its place, which bounds how many there are.
type WebhookDelivery struct {
	Slot       int
	Number     int64  // rises
	Message    string // webhook-id
	AtMillis   int64
	Partition  int
	Events     int
	Attempt    int // from 1
	Outcome    string
	Status     int    // of HTTP; 0: there was no answer
	Error      string // empty: it was delivered
	TookMillis int64
}

// The outcomes of an attempt.
const (
	DeliveryDone    = "delivered"
	DeliveryFailed  = "failed"   // it is tried again
	DeliveryGivenUp = "given_up" // it is not
	DeliveryLost    = "lost"     // no attempt: so many events were removed before they were posted
)

// WebhookMove changes a lane. Note and Failing, if set, are written with it.
type WebhookMove struct {
	From, To WebhookLane
	Note     *WebhookDelivery // Slots below WebhookSuccesses are of what was delivered
	Failing  *int64           // Webhook.FailingMillis
}

// WebhookStore keeps endpoints, and how far each has got. The stores of package sqlstore
// are ones.
type WebhookStore interface {
	// AddWebhook adds one. It gets what is stored from now on by a follower, in all
	// partitions. An *Error with CodeInvalid says that there are MaxWebhooks.
	AddWebhook(ctx context.Context, w Webhook, follower string) error

	// Webhook returns one, or an *Error with CodeNotFound. Webhooks returns all, by id.
	Webhook(ctx context.Context, id string) (Webhook, error)
	Webhooks(ctx context.Context) ([]Webhook, error)

	// ChangeWebhook writes one whose revision is w.Revision, and raises that. ErrConflict:
	// it is another one, or there is no such webhook.
	ChangeWebhook(ctx context.Context, w Webhook) error

	// StopWebhook sets the status of one that is on: what the sender does. A change by
	// people meanwhile wins.
	StopWebhook(ctx context.Context, w Webhook, status, reason string) error

	// DropWebhook removes one, with all that is kept of it.
	DropWebhook(ctx context.Context, id string) error

	// WebhookLanes returns the lanes of one, by partition.
	WebhookLanes(ctx context.Context, id string) (map[int]WebhookLane, error)

	// FillWebhookLanes begins the lanes that one does not have, at the beginning of what
	// a follower has stored. An *Error with CodeNotFound: there is no such webhook.
	FillWebhookLanes(ctx context.Context, id, follower string) error

	// MoveWebhook changes a lane that is as From says. ErrConflict: it is not.
	MoveWebhook(ctx context.Context, m WebhookMove) error

	// RewindWebhook sets all lanes of one to what a follower stored since a time. An
	// *Error with CodeNotFound: there is no such webhook.
	RewindWebhook(ctx context.Context, id, follower string, sinceMillis int64) error

	// WebhookDeliveries returns attempts, the newest first.
	WebhookDeliveries(ctx context.Context, id string, limit int) ([]WebhookDelivery, error)
}
