package ingest

import (
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
)

// reactionKinds are the mail events that are reactions whatever else they say.
var reactionKinds = map[string]mail.ReactionKind{
	sluice.EventOpened: mail.ReactionOpened, sluice.EventClicked: mail.ReactionClicked,
	sluice.EventDelivered: mail.ReactionDelivered, sluice.EventUnsubscribed: mail.ReactionUnsubscribed, sluice.EventComplained: mail.ReactionComplained,
}

// reactionOf reads a mail event as a reaction; false: it is none, or names no send of
// ours. f is what a bounce says. The event's message is the id of a message, of a send,
// or what their Message-ID was (ID@DOMAIN). A member "send" of its properties comes
// before it. Its member "machine" says whether a machine did it, and "link" which link
// of the mail was clicked.
//
// Of events that a forward brings, those are reactions that the store forwards. A
// complaint that may be of one of several people would be counted for each of them.
func reactionOf(e *sluice.Event, f *bounceFacts, place sluice.Place) (r mail.Reaction, ok bool) {
	r.Kind = reactionKinds[e.Name]
	if f.returned(e) {
		r.Kind = mail.BouncedKind(f.class())
	}
	r.Forwarded = e.Origin == sluice.OriginOwnRepeat
	counted := r.Forwarded && e.Name == mail.EventCounted
	if counted {
		r.Kind = countedKind(e.Properties)
	}
	switch {
	case r.Kind == 0 || r.Forwarded && !r.Answers() && !counted || r.Kind == mail.ReactionComplained && oneOfSeveral(e):
		return r, false
	case e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis:
		return r, false
	case !readNamed(e, &r):
		return r, false
	}
	r.TimeMillis, r.Email, r.Place = e.TimeMillis, e.Email, place
	r.Own = r.Own || e.Origin == sluice.OriginOwn || r.Judged
	return r, true
}

// countedKind reads of which kind a reaction is that the store has forwarded to be counted.
func countedKind(properties string) mail.ReactionKind {
	for m := jsonscan.Read(properties); m.Next(); {
		if m.Key == mail.KindMember {
			kind, _ := mail.ParseReactionKind(m.Value.Text())
			return kind
		}
	}
	return 0
}

// readNamed reads what an event says of a reaction, and reports whether it names a
// send.
func readNamed(e *sluice.Event, r *mail.Reaction) (named bool) {
	id, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "<"), "@")
	r.SendKey, named = mail.SendKey{Message: id, Number: mail.AnyNumber}, sluice.ValidMessageID(id)
	if message, number, ok := mail.ParseSendID(id); ok {
		r.SendKey, named = mail.SendKey{Message: message, Number: number}, true
	}
	return readReaction(e, r) || named
}

// readReaction reads what the properties of an event say of a reaction, and reports
// whether they name a send. Of "judged", "own" and "first" only the store's own word is
// taken, which comes by a forward.
func readReaction(e *sluice.Event, r *mail.Reaction) (named bool) {
	if e.Properties == "" {
		return false
	}
	for m := jsonscan.Read(e.Properties); m.Next(); {
		switch {
		case m.Key == "send" && m.Value.Kind == jsonscan.String:
			if message, number, ok := mail.ParseSendID(m.Value.Text()); ok && !named {
				r.SendKey, named = mail.SendKey{Message: message, Number: number}, true
			}
		case m.Key == "machine":
			r.Machine = m.Value.Raw == "true"
		case m.Key == "judged":
			r.Judged = e.Origin == sluice.OriginOwnRepeat && m.Value.Raw == "true"
		case m.Key == "first":
			r.First = r.Forwarded && m.Value.Raw == "true"
		case m.Key == "own":
			r.Own = e.Origin == sluice.OriginOwnRepeat && m.Value.Raw == "true"
		case m.Key == "link" && e.Origin >= sluice.OriginOwn && m.Value.Kind == jsonscan.Number:
			r.Link, _ = strconv.Atoi(m.Value.Raw) // else it is 0: not known
		}
	}
	return named
}
