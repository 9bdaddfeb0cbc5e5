package consent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
)

// How unsubscribing works. Marketing mail carries a link of its own, in its
// headers (RFC 8058) and where its template wants it. What the link says is
// signed into it. So it is good while the database is away, and after the send
// is past its retention. A GET changes nothing, since scanners fetch links. A
// POST unsubscribes, whether a mail program sends it or the button of the page.
// One click needs no login and no second step (RFC 8058). What is written is
// durable before it is answered. It is the event `unsubscribed`, by which the
// address is suppressed for marketing mail, and the state of each user who has
// the address.
//
// A link is good as often as it is used: a person who has subscribed again
// may unsubscribe by the same mail. So what has been used is not remembered. A
// repeat writes the state and the suppression once more, and no second row of
// events. Memory tells that the address is suppressed. The event takes a moment
// to get there, and for that moment its name is kept. Both only spare the row.
// State and suppression are always written, because an opt-in that was accepted
// just before may still be in a log.

// UnsubscribePath is where links lead by which somebody unsubscribes, below the
// public URL.
const UnsubscribePath = "/unsubscribe"

const (
	// unsubscribePurpose is what tokens of these links are signed for.
	unsubscribePurpose = "unsubscribe"

	// unsubscribeGood is how long a link is good, from when its mail was
	// accepted. All that it can do is to stop mail, so there is no reason to
	// end it before the mail is forgotten. Law asks for 30 days and more
	// (CAN-SPAM 30, CASL 60).
	unsubscribeGood = 10 * 365 * 24 * time.Hour

	// unsubscribeOnce is how long an event takes at most until its suppression is
	// known to all processes: a repeat within that makes no second row.
	unsubscribeOnce = 10 * time.Second
)

// UnsubscribeURL returns the link of a send, empty if there is no public URL.
// Each attempt of a send has the same. It has no room for a subscription group: it
// unsubscribes from all marketing mail.
func (s *Service) UnsubscribeURL(send *mail.Send, _ string) (string, error) {
	if s.base == "" {
		return "", nil
	}
	address, ok := profile.NormalAddress(send.To)
	if !ok {
		return "", fmt.Errorf("make a link to unsubscribe: %.64q is no address", send.To)
	}
	text, err := s.keys.Sign(unsubscribePurpose, time.UnixMilli(send.AcceptedMillis).Add(unsubscribeGood), address, send.ID(), send.User)
	if err != nil {
		return "", err
	}
	return s.base + UnsubscribePath + "?t=" + text, nil
}

// SampleUnsubscribeURL returns what such a link looks like. It is good for
// nothing.
func (s *Service) SampleUnsubscribeURL() string {
	if s.Pages != "" {
		return s.Pages + "preview"
	}
	if s.base == "" {
		return ""
	}
	return s.base + UnsubscribePath + "?t=preview"
}

// Unsubscription is what a link says: which address wants no more mail, and by which mail.
type Unsubscription struct {
	Email string
	Group string // the subscription group that the mail belonged to; empty: none

	send, user string
	name       string // under which a repeat is known
}

// OpenUnsubscribe reads a link's token. The error is token.ErrInvalid or
// token.ErrExpired.
func (s *Service) OpenUnsubscribe(text string) (*Unsubscription, error) {
	fields, err := s.open(unsubscribePurpose, text, 3)
	if err != nil {
		return nil, err
	}
	return &Unsubscription{Email: fields[0], send: fields[1], user: fields[2], name: onceName("unsubscribe-", text)}, nil
}

// UnsubscriptionOf returns what a link says that was read elsewhere. group is the
// subscription group that the mail belonged to, or empty, and send the id of its send.
// text is the same for each use of the link.
func (s *Service) UnsubscriptionOf(email, group, send, text string) *Unsubscription {
	return &Unsubscription{Email: email, Group: group, send: send, name: onceName("unsubscribe-", text)}
}

// Unsubscribe writes that somebody wants no more marketing mail. It is in force
// before all that is accepted later, and after all that was accepted before.
// Errors are those of Writer.
func (s *Service) Unsubscribe(ctx context.Context, w Writer, u *Unsubscription) error {
	now := s.clock.Now().UnixMilli()
	key := user.Key{Kind: user.KeyEmail, Name: u.Email}
	properties, err := json.Marshal(map[string]string{"send": u.send, "by": "link"})
	if err != nil {
		return fmt.Errorf("write down that somebody unsubscribes: %w", err)
	}
	message, _, _ := mail.ParseSendID(u.send)
	// Of no app: it is about the marketing mail of all of them, as is what becomes
	// of email_subscribe.
	events := []sluice.Event{{Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: now, ID: u.name, Name: sluice.EventUnsubscribed,
		Email: u.Email, User: u.user, Message: message, Properties: string(properties)}}
	updates := []user.Update{{Op: user.OpSubscribe, Key: key, TimeMillis: now, Body: "unsubscribed"}}
	if s.Unsubscribed == nil || !s.Unsubscribed(u.Email) {
		if written, err := w.Record(ctx, key, events, updates, u.name, unsubscribeOnce); err != nil || written {
			return err
		}
	}
	events[0].Origin = sluice.OriginOwnRepeat
	_, err = w.Record(ctx, key, events, updates, "", 0)
	return err
}
