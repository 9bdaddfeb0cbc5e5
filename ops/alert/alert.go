// Package alert tells people what is wrong: once when it begins, again while
// it lasts, once when it has ended, by webhook and e-mail.
//
// Every process writes what is wrong with it to a state in Redis (ops/alertstate); the one that
// has the lease of Role judges what all of them wrote, and tells.
package alert

import (
	"context"
	"strings"
	"time"
)

// Role is the role of telling. It has one place.
const Role = "alert"

// The kinds of problems. docs/alerts.md has a heading for each, #alert-KIND.
const (
	Lag         = "lag"
	DeadLetters = "dead-letters"
	Gap         = "gap"
	Follower    = "follower"
	Disk        = "disk"
	Domain      = "domain"
	InDoubt     = "in-doubt"
	Ledger      = "ledger"
	Clock       = "clock"
	Tracking    = "tracking"
	Endpoint    = "webhook"
	Paused      = "paused"
	Test        = "test" // not a problem: somebody tries whether alerts arrive
)

// Kinds returns all kinds.
func Kinds() []string {
	return []string{Lag, DeadLetters, Gap, Follower, Disk, Domain, InDoubt, Ledger, Clock, Paused, Tracking, Endpoint, Test}
}

// Problem is one thing that is wrong now.
type Problem struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // what it is about: a follower, a host; it may be empty
	Summary string `json:"summary"` // one line with the figures

	// Unknown: nobody could look whether it is wrong. What is known of it before goes on.
	Unknown bool `json:"unknown,omitempty"`
}

// name is what makes two problems the same.
func (p *Problem) name() string { return p.Kind + " " + p.Subject }

// Status of a notice.
const (
	Firing   = "firing"
	Resolved = "resolved"
)

// Notice is what is told of one problem.
type Notice struct {
	Alert   string     `json:"alert"` // the problem's kind
	Subject string     `json:"subject"`
	Status  string     `json:"status"`
	Since   time.Time  `json:"since"`           // when it was first seen
	Until   *time.Time `json:"until,omitempty"` // when it was last seen; of resolved ones
	Summary string     `json:"summary"`         // as it was last seen
	Runbook string     `json:"runbook"`         // in the documentation
}

// about names the problem: its kind, and its subject if it has one.
func (n *Notice) about() string { return strings.TrimSpace(n.Alert + " " + n.Subject) }

// Message is what is sent at a time: all that is new.
type Message struct {
	Version int       `json:"version"` // 1
	Program string    `json:"program"` // sluice
	Host    string    `json:"host"`    // that sends it
	At      time.Time `json:"at"`
	Alerts  []Notice  `json:"alerts"`
}

// Channel is a way to people. Send is called by one goroutine at a time, and
// returns within sendTimeout of its context. What fails is sent again, but for a
// *PartError.
type Channel interface {
	Name() string
	Send(ctx context.Context, m *Message) error
}

// PartError is the error of a message that some of its recipients get, while others were
// refused. To send it again would tell the first ones again and again.
type PartError struct{ Refused error }

// Error says who was refused, and why.
func (e *PartError) Error() string {
	return "some recipients were refused, the others get it: " + e.Refused.Error()
}

// Unwrap returns the refusals.
func (e *PartError) Unwrap() error { return e.Refused }

// newMessage returns a message of notices.
func newMessage(host string, at time.Time, notices []Notice) *Message {
	return &Message{Version: 1, Program: "sluice", Host: host, At: at.UTC(), Alerts: notices}
}

// NewTest returns the message of `sluice alert test`.
func NewTest(host string, at time.Time) *Message {
	return newMessage(host, at, []Notice{{Alert: Test, Status: Firing, Since: at.UTC(),
		Summary: "somebody tries whether alerts arrive; nothing is wrong", Runbook: runbook(Test)}})
}

func runbook(kind string) string { return "docs/alerts.md#alert-" + kind }
