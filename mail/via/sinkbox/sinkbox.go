// Package sinkbox is mailboxes that are built in: mail goes into them instead
// of out. They take, defer, refuse and bounce it, open it, click in it and
// complain of it, as often as they are told to. The same addresses always do
// the same.
package sinkbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/mail"
)

// What applies where nothing is set, and bounds.
const (
	DefaultMails  = 1000
	MaxMails      = 100_000
	DefaultBytes  = 64 << 20
	MaxBytes      = 1 << 30
	DefaultWithin = time.Minute
	MaxWithin     = 30 * 24 * time.Hour

	// maxPending bounds the mails that something is still to happen to. What would
	// happen to those beyond it does not, and is counted: mail is never held up.
	maxPending = 1 << 18

	// maxDeferred bounds the sends that are known to have been deferred; older
	// ones may be deferred once more.
	maxDeferred = 1 << 16

	window  = 64
	workers = 4

	thousand = 1000
)

// Settings say what mailboxes do. The numbers are of 1,000 addresses, by the
// address alone: an address does what it does to each mail.
type Settings struct {
	Name string // of the transport
	Seed uint64 // another one, other addresses

	Defer  int // the first attempt of each mail is deferred
	Refuse int // refused at once: nobody is there
	Bounce int // taken, and returned later

	// Of those that keep it.
	Open, Click, Complain, Unsubscribe int // each click is also an open

	Within time.Duration // all that happens later happens within it; 0: DefaultWithin

	Mails int // how many are kept for viewing; 0: DefaultMails
	Bytes int // of them together; 0: DefaultBytes
}

// Check says what is wrong with settings, nil if nothing is.
func (s *Settings) Check() error {
	var errs []error
	for _, x := range []struct {
		name      string
		n, atMost int
	}{
		{"defer", s.Defer, thousand}, {"refuse", s.Refuse, thousand}, {"bounce", s.Bounce, thousand}, {"open", s.Open, thousand}, {"click", s.Click, thousand},
		{"complain", s.Complain, thousand}, {"unsubscribe", s.Unsubscribe, thousand}, {"mails", s.Mails, MaxMails}, {"bytes", s.Bytes, MaxBytes},
	} {
		if x.n < 0 || x.n > x.atMost {
			errs = append(errs, fmt.Errorf("%s is %d, want 0 to %d", x.name, x.n, x.atMost))
		}
	}
	if s.Click > s.Open {
		errs = append(errs, fmt.Errorf("click is %d and open %d: each click is also an open; set open to at least click", s.Click, s.Open))
	}
	if s.Within < 0 || s.Within > MaxWithin {
		errs = append(errs, fmt.Errorf("within is %v, want at most %v", s.Within, MaxWithin))
	}
	return errors.Join(errs...)
}

// Happening is what has happened to a mail after it was taken.
type Happening struct {
	Send   string // Envelope.Send
	To     string
	Event  string // delivered, bounced, opened, clicked, complained, unsubscribed
	Time   time.Time
	Code   string // of a bounce: 5.1.1 (RFC 3463)
	Reason string // of a bounce, in words
}

// Kept is a mail that is kept.
type Kept struct {
	Number   int64 // from 1, in the order in which they came
	Time     time.Time
	Send     string
	From, To string
	Tags     []string
	Content  []byte // never changed
}

// Box is the mailboxes. It is a mail.Transport.
type Box struct {
	s      Settings
	clock  sluice.Clock
	report func([]Happening)

	mu       sync.Mutex
	kept     []Kept // oldest first
	bytes    int
	last     int64
	deferred map[string]bool
	order    []string // of deferred, oldest first
	pending  queue
	missed   int64

	pendingAtMost, deferredAtMost int

	planned chan struct{} // something is to happen where nothing was
}

// New returns mailboxes. report is told what has happened, of several mails at
// once, by Run; nil: nobody is, and nothing happens.
func New(s Settings, clock sluice.Clock, report func([]Happening)) (*Box, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("prepare mailboxes %s: %w", s.Name, err)
	}
	if s.Mails == 0 {
		s.Mails = DefaultMails
	}
	if s.Bytes == 0 {
		s.Bytes = DefaultBytes
	}
	if s.Within == 0 {
		s.Within = DefaultWithin
	}
	return &Box{s: s, clock: clock, report: report, deferred: make(map[string]bool), pendingAtMost: maxPending, deferredAtMost: maxDeferred,
		planned: make(chan struct{}, 1)}, nil
}

// Name implements mail.Transport.
func (b *Box) Name() string { return b.s.Name }

// Window implements mail.Transport.
func (b *Box) Window() int { return window }

// Workers implements mail.Transport.
func (b *Box) Workers() int { return workers }

// Close implements mail.Transport.
func (b *Box) Close() error { return nil }

// Deliver implements mail.Transport.
func (b *Box) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	for i := range envelopes {
		if err := ctx.Err(); err != nil {
			done(i, mail.Result{Kind: mail.ResultUntried, Text: mail.ReplyText(err.Error())})
			continue
		}
		e := &envelopes[i]
		r, held := e.Held()
		if !held {
			r = b.deliver(e)
		}
		done(i, r)
	}
}

func (b *Box) deliver(e *mail.Envelope) mail.Result {
	r := mail.Result{Kind: mail.ResultSent, Code: 250, Enhanced: "2.1.5", Text: "kept in a built-in mailbox", Remote: b.s.Name}
	address := strings.ToLower(e.To)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.does("refuse", address, b.s.Refuse):
		r.Kind, r.Blame, r.Code, r.Enhanced, r.Text = mail.ResultFailed, mail.BlameRecipient, 550, "5.1.1", "nobody is there (built-in mailbox)"
		return r
	case b.does("defer", address, b.s.Defer) && b.defers(e.Send):
		r.Kind, r.Blame, r.Code, r.Enhanced, r.Text = mail.ResultDeferred, mail.BlameRecipient, 450, "4.2.1", "try again later (built-in mailbox)"
		return r
	}
	// What is kept for long shares no memory with the batch that a send was read from.
	from, to, tags := strings.Clone(e.From), strings.Clone(e.To), slices.Clone(e.Tags)
	for i := range tags {
		tags[i] = strings.Clone(tags[i])
	}
	now := b.clock.Now()
	b.last++
	r.ID = strconv.FormatInt(b.last, 10)
	b.keep(Kept{Number: b.last, Time: now, Send: e.Send, From: from, To: to, Tags: tags, Content: slices.Clone(e.Content)})
	b.plan(e.Send, to, address, now)
	return r
}

// defers reports whether a send has not been deferred yet, and notes it.
func (b *Box) defers(send string) bool {
	if b.deferred[send] {
		return false
	}
	if len(b.order) == b.deferredAtMost {
		delete(b.deferred, b.order[0])
		b.order = b.order[1:]
	}
	b.deferred[send] = true
	b.order = append(b.order, send)
	return true
}

// keep keeps a mail, and forgets the oldest ones that are too many.
func (b *Box) keep(k Kept) {
	b.kept = append(b.kept, k)
	b.bytes += len(k.Content)
	drop := 0
	for len(b.kept)-drop > b.s.Mails || b.bytes > b.s.Bytes && drop < len(b.kept) {
		b.bytes -= len(b.kept[drop].Content)
		b.kept[drop] = Kept{}
		drop++
	}
	b.kept = b.kept[drop:]
}

// Mails returns at most limit mails that are kept, the newest first. to is an
// address, in whichever case (empty: all), and before a number (0: from the
// newest on).
func (b *Box) Mails(to string, before int64, limit int) []Kept {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Kept
	for _, k := range slices.Backward(b.kept) {
		if len(all) == limit {
			break
		}
		if (before == 0 || k.Number < before) && (to == "" || strings.EqualFold(k.To, to)) {
			all = append(all, k)
		}
	}
	return all
}

// Mail returns a mail by its number, if it is kept.
func (b *Box) Mail(number int64) (Kept, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := slices.BinarySearchFunc(b.kept, number, func(k Kept, n int64) int { return int(k.Number - n) })
	if !ok {
		return Kept{}, false
	}
	return b.kept[i], true
}

// does reports whether an address is one of those of 1,000 that do something.
func (b *Box) does(what, address string, of int) bool {
	return of > 0 && b.draw(what, address)%thousand < uint64(of)
}

// draw returns the number that an address has drawn for something. It is
// FNV-1a, and the mix of SplitMix64, since the low bits of the former are not
// random enough.
func (b *Box) draw(what, address string) uint64 {
	h := uint64(14695981039346656037) ^ b.s.Seed
	for _, text := range [...]string{what, "\x00", address} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
