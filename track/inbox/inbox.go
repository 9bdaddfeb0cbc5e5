package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/smtpd"
	"sluice/track/bounce"
	"sluice/track/verp"
)

// Ledger is where sends are looked up. mail.SendStore is one.
type Ledger interface {
	SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error)
}

// Events is where events go. ingest.Intake is one.
type Events interface {
	Accept(ctx context.Context, r *ingest.Request) (ingest.Accepted, error)
}

// Writer writes to the logs. flow.Writer is one.
type Writer interface {
	Write(ctx context.Context, parts ...flow.Part) error
}

// Inbox takes mail to the return paths of a deployment, and to the address of its
// feedback loops. It is a smtpd.Receiver; it never answers a mail.
//
// The idea. What a report is about is said by the address that it comes to, which
// only servers on the mail's way and its recipient know. The rest of a report is
// anybody's word. So a report changes the send of its address and nobody else,
// whatever it says: the recipient is that of the ledger.
//
// The invariants. A mail is accepted when its event is durable in the log, and a line
// for the ledger beside it. Otherwise its sender is told to come again. A report that
// comes again has the same event id, and the time at which it came first. Redis
// remembers that for a while, then the send's life in the ledger says so.
//
// Dropped. Writing the event without a look into the ledger, with the recipient of the
// report: a recipient knows one return path, and could have any address suppressed.
type Inbox struct {
	Tokens     *verp.Keys
	Domains    []string // of return paths, in lower case
	Feedback   string   // the local part of the address for feedback loops; empty: there is none
	Partitions int

	Ledger Ledger
	Events Events
	Logs   Writer

	// Once returns the first value that was given under a name, within ttl. flow.Redis
	// has it.
	Once func(ctx context.Context, name, value string, ttl time.Duration) (first string, err error)

	Clock sluice.Clock
	Log   *slog.Logger
	Stats Stats

	claims claims
}

var _ smtpd.Receiver = (*Inbox)(nil)

const (
	// rememberFor is how long Redis remembers when a report came first. A server that
	// had no answer comes again within minutes. After that the ledger knows.
	rememberFor = 6 * time.Hour

	// freshFor is how long a send may be missing in the ledger, which is written behind
	// the log: a bounce can be faster. After it, it is past its retention.
	freshFor = time.Hour

	// maxClaimsPerHour bounds the complaints without a token, of an address alone, that a
	// process keeps. A loop that sends none of our tokens has some hundred on a bad day.
	maxClaimsPerHour = 1000

	// dayMillis tells ids of journeys' mail, which begin with the day of an entry.
	dayMillis = int64(24 * time.Hour / time.Millisecond)

	// sender is under what reports are written: no key of the API has that id.
	sender = "mail that came back"
)

// errNotYet is the error of a report about a send that will soon be in the ledger.
var errNotYet = fmt.Errorf("the send is not in the ledger yet")

// Recipient implements smtpd.Receiver. It computes, and asks nobody.
func (in *Inbox) Recipient(to string) error {
	_, _, err := in.named(to)
	return err
}

// named returns the send that an address names; feedback: it is the address for
// complaints.
func (in *Inbox) named(address string) (send verp.Send, feedback bool, err error) {
	local, domain, _ := strings.Cut(address, "@")
	if !slices.Contains(in.Domains, strings.ToLower(domain)) {
		return send, false, verp.ErrInvalid
	}
	if in.Feedback != "" && strings.EqualFold(local, in.Feedback) {
		return send, true, nil
	}
	send, err = in.read(local)
	return send, false, err
}

// read returns the send that a token of ours names.
func (in *Inbox) read(token string) (send verp.Send, err error) {
	if send, err = in.Tokens.Read(token); err == nil && send.Partition >= in.Partitions {
		err = verp.ErrInvalid
	}
	return send, err
}

// Receive implements smtpd.Receiver.
func (in *Inbox) Receive(ctx context.Context, _, to string, content []byte) error {
	send, feedback, err := in.named(to)
	if err != nil {
		return &smtpd.Never{Reason: "There is no such address here"}
	}
	reports := bounce.Parse(content)
	if feedback {
		return in.complaints(ctx, reports)
	}
	row, err := in.row(ctx, mail.SendKey{Message: send.Message, Number: send.Number})
	if err != nil {
		return err
	}
	if row == nil { // past its retention, or lost: nobody is suppressed by what is not known
		row = &mail.SendRow{Message: send.Message, Number: send.Number, Partition: send.Partition, State: mail.SendSent}
	}
	e := choose(reports, row.To)
	if e.Type == sluice.EventUnknown {
		e.MTAResponse = beginning(content)
	}
	return in.record(ctx, row, e, "")
}

// found returns the row of a send; nil: the ledger does not have it.
func (in *Inbox) found(ctx context.Context, key mail.SendKey) (*mail.SendRow, error) {
	rows, err := in.Ledger.SendRows(ctx, []mail.SendKey{key})
	if err != nil {
		return nil, fmt.Errorf("look up the send of a report: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

// row returns the row of a send that a token of ours names; nil: it is not there any more.
// Redis may remember the send if it is missing: so a stranger must not choose it.
func (in *Inbox) row(ctx context.Context, key mail.SendKey) (*mail.SendRow, error) {
	row, err := in.found(ctx, key)
	if row != nil || err != nil {
		return row, err
	}
	since, err := in.missingSince(ctx, key)
	if err == nil && in.Clock.Now().Sub(since) < freshFor {
		err = errNotYet
	}
	if err != nil {
		return nil, fmt.Errorf("look up the send %s.%d of a report: %w", key.Message, key.Number, err)
	}
	return nil, nil
}

// missingSince returns a moment from which on a send that is not in the ledger may have been
// on its way there: when its message was made. The id of a journey's mail begins with the day
// on which its person entered, and says nothing of that; then it is the first report of it.
func (in *Inbox) missingSince(ctx context.Context, key mail.SendKey) (time.Time, error) {
	made := sluice.MessageTime(key.Message)
	if made.UnixMilli()%dayMillis != 0 {
		return made, nil
	}
	return in.firstSeen(ctx, "missing:"+key.Message+"."+strconv.Itoa(key.Number))
}

// firstSeen returns when a name was seen first, now if not within rememberFor.
func (in *Inbox) firstSeen(ctx context.Context, name string) (time.Time, error) {
	first, err := in.Once(ctx, name, strconv.FormatInt(in.Clock.Now().UnixMilli(), 10), rememberFor)
	if err != nil {
		return time.Time{}, err
	}
	millis, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a report came first: %q: %w", first, err)
	}
	return time.UnixMilli(millis), nil
}

// choose returns what a report says of an address. One that names others alone
// is of a mail that was forwarded: then the mildest word counts, as the mail reached
// some of them.
func choose(reports []bounce.Event, to string) *bounce.Event {
	best := &reports[0] // there is one (bounce.Parse)
	for i := range reports {
		e := &reports[i]
		if strings.EqualFold(e.Recipient, to) {
			return e
		}
		if gravity(e) < gravity(best) {
			best = e
		}
	}
	return best
}

// gravity is how bad a report is.
func gravity(e *bounce.Event) int {
	switch {
	case e.Type == sluice.EventBounced && e.Metadata["bounce_class"] == mail.BounceHard.String():
		return 3
	case e.Type == sluice.EventBounced:
		return 2
	case e.Type == sluice.EventDeferred:
		return 1
	}
	return 0
}

// complaints takes what came to the address of feedback loops. A mail that complains of
// nothing is accepted and forgotten.
//
// A token of ours proves which send a complaint is about, and that its sender has had the
// mail. Without one the Message-ID says so, or else the address. Both are anybody's word:
// strangers know addresses, and one who is mailed along can guess the Message-IDs of the
// others. So what is not proven is kept and shown, as an event `unknown`, and stops
// nothing: it is no complaint to suppression, series, journeys or limits. Addresses can be
// made up without end, and each is an event: so of a mail one is kept, and of an hour
// maxClaimsPerHour.
func (in *Inbox) complaints(ctx context.Context, reports []bounce.Event) error {
	claimed := false // of an address alone
	for i := range reports {
		e := &reports[i]
		if e.Type != sluice.EventComplained && e.Type != sluice.EventUnsubscribed {
			in.Stats.count(resultIgnored)
			continue
		}
		row, proven, err := in.complainedOf(ctx, e)
		if err != nil {
			return err
		}
		claim := row != nil && row.Message == ""
		if row == nil || claim && (claimed || in.claims.full(in.Clock.Now())) {
			in.Stats.count(resultIgnored)
			continue
		}
		word := ""
		if !proven {
			word, e.Type = e.Type, sluice.EventUnknown
		}
		if err := in.record(ctx, row, e, word); err != nil {
			return err
		}
		if claim {
			claimed = true
			in.claims.kept()
		}
	}
	return nil
}

// claims counts what is kept of complaints that name an address alone, in an hour.
type claims struct {
	mu   sync.Mutex
	hour int64 // since 1970
	n    int
}

// full reports whether no more are kept in the hour of now.
func (c *claims) full(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hour := now.Unix() / 3600; hour != c.hour {
		c.hour, c.n = hour, 0
	}
	return c.n >= maxClaimsPerHour
}

// kept counts one, when it is durable.
func (c *claims) kept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// provenBy returns the send that a token of ours in a complaint names: its return path, or
// the CFBL-Feedback-ID of the mail, in which spaces count for nothing (RFC 9477, 3.2).
func (in *Inbox) provenBy(e *bounce.Event) (send verp.Send, ok bool) {
	for _, field := range []string{"original_mail_from", "return_path"} {
		send, feedback, err := in.named(strings.Trim(strings.TrimSpace(e.Metadata[field]), "<>"))
		if err == nil && !feedback {
			return send, true
		}
	}
	send, err := in.read(strings.Join(strings.Fields(e.Metadata["cfbl_feedback_id"]), ""))
	return send, err == nil
}

// complainedOf returns the send that a complaint is about, and whether that is proven;
// a row with an address alone if no send is known, nil if nothing is. A Message-ID that the
// ledger does not have is not asked for again, as it may be made up: the address counts alone.
func (in *Inbox) complainedOf(ctx context.Context, e *bounce.Event) (row *mail.SendRow, proven bool, err error) {
	if send, ok := in.provenBy(e); ok {
		row, err = in.row(ctx, mail.SendKey{Message: send.Message, Number: send.Number})
		return row, true, err
	}
	id, _, _ := strings.Cut(e.MessageID, "@")
	if message, number, ok := mail.ParseSendID(id); ok {
		if row, err = in.found(ctx, mail.SendKey{Message: message, Number: number}); row != nil || err != nil {
			return row, false, err
		}
	}
	if _, err := mime.ParseAddress(e.Recipient); err != nil {
		return nil, false, nil
	}
	return &mail.SendRow{To: e.Recipient}, false, nil
}

// record makes a report durable: an event, and a line in the life of its send. claimed is
// what it says without a proof: complained or unsubscribed; empty: it is proven.
func (in *Inbox) record(ctx context.Context, row *mail.SendRow, e *bounce.Event, claimed string) error {
	if row.Message != "" && row.To == "" && row.Life != "" { // its recipient was erased
		in.Stats.count(resultIgnored)
		return nil
	}
	word := wordOf(e, claimed)
	if row.Tells(word) {
		in.Stats.count(resultRepeated)
		return nil
	}
	id := eventID(row, word)
	first, err := in.firstSeen(ctx, id)
	if err != nil {
		return err
	}
	millis := first.UnixMilli()
	if err := in.accept(ctx, element(row, e, id, millis, claimed)); err != nil {
		return err
	}
	if row.Life != "" {
		if err := in.note(ctx, row, e, word, millis); err != nil {
			return err
		}
	}
	in.Stats.count(e.Type)
	return nil
}

// accept has an event written. What a token of ours proves is trusted; what is not proven
// is no event that needs it.
func (in *Inbox) accept(ctx context.Context, element string) error {
	done, err := in.Events.Accept(ctx, &ingest.Request{Items: []string{element}, Sender: sender, Consent: true})
	if err == nil && done.RefusedItems > 0 { // all its texts are bounded: a report is no reason for it
		in.Log.Error("a report that came back makes no event, and is lost", "error", done.Refused[0].Message)
	}
	return err
}

// note has a line added to the life of a send. Its state stays: a server had taken
// the mail, and has thought better of it.
func (in *Inbox) note(ctx context.Context, row *mail.SendRow, e *bounce.Event, word string, millis int64) error {
	o := mail.Outcome{
		Message: row.Message, Number: row.Number, Was: mail.SendSent, State: mail.SendSent, TimeMillis: millis,
		Reply: replyOf(e), Reason: word, Remote: mail.ReplyText(e.Metadata["reporting_mta"]), To: row.To, User: row.User, App: row.App,
	}
	return in.Logs.Write(ctx, flow.Part{Partition: row.Partition, Items: mail.AppendOutcome(nil, &o), Count: 1})
}
