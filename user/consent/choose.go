package consent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/mail"
	"sluice/user"
)

// EventChosen is what a person has chosen on the page of a mail, an event of the kind
// system. Its properties have "send", "by" (link: by one click of a mail program; page),
// and what was chosen: "groups", "email_subscribe".
const EventChosen = "preferences_changed"

// Choice is what a person chooses on the page of a mail. What it does not name stays.
type Choice struct {
	Mail   *bool           // whether marketing mail comes at all
	Groups map[string]bool // by subscription group: whether its mail comes
	By     string          // ByLink or ByPage
}

// Ways to choose.
const (
	ByLink = "link" // by one click of a mail program
	ByPage = "page"
)

// Stops reports whether it only stops mail: then it may be carried out late.
func (c *Choice) Stops() bool {
	for _, on := range c.Groups {
		if on {
			return false
		}
	}
	return c.Mail == nil || !*c.Mail
}

// small reports whether it only stops mail, and writes no more than one click: then it
// has no bound. Whatever else has been chosen, each thing can be stopped, one at a time.
func (c *Choice) small() bool { return c.Stops() && len(c.Groups) <= 1 }

// stopping returns what of it stops mail.
func (c *Choice) stopping() *Choice {
	half := &Choice{By: c.By, Groups: make(map[string]bool)}
	if c.Mail != nil && !*c.Mail {
		half.Mail = c.Mail
	}
	for group, on := range c.Groups {
		if !on {
			half.Groups[group] = false
		}
	}
	return half
}

// Empty reports whether it names nothing.
func (c *Choice) Empty() bool { return c.Mail == nil && len(c.Groups) == 0 }

// maxChoicesPerHour bounds what is chosen on pages for one address. A choice writes an
// item for each group, and a link may be anybody's who got its mail.
const maxChoicesPerHour = 60

// chosen are the properties of an EventChosen.
type chosen struct {
	Send           string            `json:"send"`
	By             string            `json:"by"`
	EmailSubscribe string            `json:"email_subscribe,omitempty"`
	Groups         map[string]string `json:"groups,omitempty"`
}

// stateOf is the word of a state.
func stateOf(on bool) string {
	if on {
		return "subscribed"
	}
	return "unsubscribed"
}

// Choose writes what somebody has chosen, in one step: the states of all who have the
// address, and an event that proves it. Marketing mail as a whole is stopped, or comes
// again, by an event `unsubscribed` or `subscribed` as well, which is the suppression.
// A repeat of one click within some seconds writes the states again and no further row
// of events. On the page somebody may choose, think again and choose the first once more:
// each time has a row, so that the last row says what holds.
// Errors are those of Writer, and *TooOftenError: nothing was written, for the page has
// written maxChoicesPerHour for the address. What stops one thing is always written.
// Where mail that comes again cannot be written, what stops mail is written alone, if the
// Writer takes it, and the error is returned all the same: a person who wants less mail has
// said so once.
func (s *Service) Choose(ctx context.Context, w Writer, u *Unsubscription, c *Choice) error {
	if c.By == ByPage && !c.small() {
		// No form has an empty name, so these are counted apart.
		if wait := s.addresses.take("\x00choose\x00"+u.Email, maxChoicesPerHour, s.clock.Now()); wait > 0 {
			return &TooOftenError{Wait: wait}
		}
	}
	err := s.write(ctx, w, u, c)
	if err != nil && !c.Stops() {
		if half := c.stopping(); !half.Empty() {
			_ = s.write(ctx, w, u, half) // the caller tells of the whole
		}
	}
	return err
}

// write writes a choice, as Choose says.
func (s *Service) write(ctx context.Context, w Writer, u *Unsubscription, c *Choice) error {
	now := s.clock.Now().UnixMilli()
	key := user.Key{Kind: user.KeyEmail, Name: u.Email}
	message, _, _ := mail.ParseSendID(u.send)
	says := chosen{Send: u.send, By: c.By, Groups: make(map[string]string, len(c.Groups))}
	var updates []user.Update
	if c.Mail != nil {
		says.EmailSubscribe = stateOf(*c.Mail)
		updates = append(updates, user.Update{Op: user.OpSubscribe, Key: key, TimeMillis: now, Body: says.EmailSubscribe})
	}
	for _, group := range slices.Sorted(maps.Keys(c.Groups)) {
		says.Groups[group] = stateOf(c.Groups[group])
		updates = append(updates, user.Update{Op: user.OpGroup, Key: key, TimeMillis: now, Name: group, App: user.EachOfAddress, Body: says.Groups[group]})
	}
	properties, err := json.Marshal(&says) // the keys of a map are sorted
	if err != nil {
		return fmt.Errorf("write down what somebody chooses: %w", err)
	}
	id := onceName(u.name+"-", string(properties))
	once, within := id, unsubscribeOnce
	if c.By != ByLink {
		id += "-" + strconv.FormatInt(now, 10)
		once, within = "", 0
	}
	proof := sluice.Event{Kind: sluice.KindSystem, Origin: sluice.OriginOwn, TimeMillis: now, ID: id, Name: EventChosen, Email: u.Email, User: u.user, Message: message, Properties: string(properties)}
	var word []sluice.Event // of the suppression
	if c.Mail != nil {
		word = []sluice.Event{{Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: now, ID: id + "-mail", Name: says.EmailSubscribe, Email: u.Email, User: u.user, Message: message,
			Properties: fmt.Sprintf(`{"send":%q,"by":%q}`, u.send, c.By)}}
	}
	written, err := w.Record(ctx, key, append([]sluice.Event{proof}, word...), updates, once, within)
	if err != nil || written {
		return err
	}
	for i := range word {
		word[i].Origin = sluice.OriginOwnRepeat
	}
	_, err = w.Record(ctx, key, word, updates, "", 0)
	return err
}
