package ingest

import (
	"context"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user"
)

// reactionOf reads a mail event as a reaction; false: it is none, or names no send of
// ours. The event's message is the id of a message, of a send, or what their Message-ID
// was (ID@DOMAIN). A member "send" of its properties comes before it.
func reactionOf(e *sluice.Event, place sluice.Place) (r mail.Reaction, ok bool) {
	if e.Kind != sluice.KindMail || e.Name != sluice.EventOpened && e.Name != sluice.EventClicked {
		return r, false
	}
	if e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis {
		return r, false
	}
	if r.SendKey, ok = sendNamed(e); !ok {
		return r, false
	}
	r.Click, r.TimeMillis, r.Email, r.Place = e.Name == sluice.EventClicked, e.TimeMillis, e.Email, place
	if e.ID != "" {
		r.Event = sluice.EventKey{Millis: e.TimeMillis, ID: e.ID}
	}
	return r, true
}

// sendNamed returns the send that an event names.
func sendNamed(e *sluice.Event) (mail.SendKey, bool) {
	if strings.Contains(e.Properties, `"send"`) {
		for m := jsonscan.Read(e.Properties); m.Next(); {
			if m.Key != "send" || m.Value.Kind != jsonscan.String {
				continue
			}
			if message, number, ok := mail.ParseSendID(m.Value.Text()); ok {
				return mail.SendKey{Message: message, Number: number}, true
			}
		}
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "<"), "@")
	if message, number, ok := mail.ParseSendID(id); ok {
		return mail.SendKey{Message: message, Number: number}, true
	}
	return mail.SendKey{Message: id, Number: mail.AnyNumber}, sluice.ValidMessageID(id)
}

// react adds that a mail was opened or clicked. One that comes from the log of another
// partition has its row there, and comes once: it is no repeat.
func (t *storing) react(r mail.Reaction, forwarded bool) {
	if forwarded {
		r.Event = sluice.EventKey{}
	}
	t.effect.Reactions = append(t.effect.Reactions, r)
}

// withoutRepeats leaves out the reactions of a transaction whose events have a row from
// before, or are in it twice: a repeated event is no second reaction. It runs just before
// the transaction, when the one before is committed.
func (s *StoreFollower) withoutRepeats(ctx context.Context, all []mail.Reaction) ([]mail.Reaction, error) {
	var keys []sluice.EventKey
	seen := make(map[sluice.EventKey]bool)
	for i := range all {
		if k := all[i].Event; k.ID != "" && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return all, nil
	}
	stored := make(map[sluice.EventKey]bool)
	for piece := range slices.Chunk(keys, user.MaxQuery) {
		some, err := s.Users.Stored(ctx, piece)
		if err != nil {
			return nil, err
		}
		for k := range some {
			stored[k] = true
		}
	}
	fresh := make([]mail.Reaction, 0, len(all))
	for _, r := range all {
		if r.Event.ID != "" && stored[r.Event] {
			continue
		}
		stored[r.Event] = true // the next with this id is a repeat
		fresh = append(fresh, r)
	}
	return fresh, nil
}
