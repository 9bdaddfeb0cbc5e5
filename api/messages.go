package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/lib/key"
	"sluice/mail"
)

// Paths of messages.
const (
	messagesPath = "/v1/messages"
	messagePath  = messagesPath + "/{id}"
)

// MaxRequestMessages bounds the messages of one request.
const MaxRequestMessages = 1000

// Canceller stops messages. A spool.Canceller is one.
type Canceller interface {
	// Cancel stops what has not left yet of a message, and returns what became of
	// its sends. An *sluice.Error with CodeNotFound: there is no such message; with
	// CodeUnavailable: no more can be cancelled now, or not all sends are known yet.
	Cancel(ctx context.Context, message string) (mail.Cancelled, error)

	// Stored reports whether the ledger has all mail that was handed in before a time.
	Stored(ctx context.Context, beforeMillis int64) (bool, error)
}

// acceptedMessage is a message that was accepted.
type acceptedMessage struct {
	Index      int    `json:"index"`
	ID         string `json:"id"`
	Recipients int    `json:"recipients"`
}

// messagesOutcome is what became of a request's messages: the body of a 202.
type messagesOutcome struct {
	outcome
	Messages []acceptedMessage `json:"messages"`
}

// messages is POST /v1/messages.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	started := s.clock.Now()
	done, err := s.takeMessages(w, r)
	in := s.intake
	if err == nil {
		in.refused.Add(float64(done.RefusedCount))
	}
	switch {
	case err != nil:
		s.writeError(w, r, err)
	case done.Accepted == 0 && done.RefusedCount > 0:
		first := done.Refused[0]
		first.RequestID = idOf(w)
		s.writeJSON(w, http.StatusBadRequest, errorBody{Error: first, outcome: &done.outcome})
	default:
		in.accepted.Add(float64(done.Accepted))
		s.writeJSON(w, http.StatusAccepted, done)
		in.seconds.Observe(s.clock.Now().Sub(started).Seconds())
	}
	in.answeredWith(w)
}

// takeMessages reads a request and hands its messages in.
func (s *Server) takeMessages(w http.ResponseWriter, r *http.Request) (*messagesOutcome, error) {
	who, err := s.admitted(w, r, key.MessagesSend)
	if err != nil {
		return nil, err
	}
	services := s.program.Services()
	submitter, intake := services.Submitter, services.Intake
	if submitter == nil || intake == nil && r.Header["Idempotency-Key"] != nil {
		return nil, errNotRunning
	}
	// Another name than that of a request with events under the same key.
	request := ingest.Request{Sender: messagesPath + " " + who.ID}
	if request.IdempotencyKey, err = idempotencyKey(r.Header); err != nil {
		return nil, err
	}
	form, err := formOf(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	ctx, body, err := s.hold(r, who, s.intake.slots, maxEventsBytes)
	if err != nil {
		return nil, err
	}
	defer body.release()
	request.Body = body.text()
	if request.Items, err = split(request.Body, form, nil); err != nil {
		noteSent(w, func() string { return sentRefused })
		return nil, err
	}
	noteSent(w, func() string { return sentItems(request.Items) })
	if len(request.Items) > MaxRequestMessages {
		return nil, refusal(sluice.CodeTooLarge, "the request has %d messages, at most %d are possible", len(request.Items), MaxRequestMessages)
	}
	now, once := s.clock.Now(), ""
	if request.IdempotencyKey != "" {
		request.Key = who.Bounded()
		if now, once, err = intake.Once(ctx, &request); err != nil {
			return nil, s.notAccepted(w, err, repeatMessages)
		}
	}
	done, drafts, err := s.drafts(ctx, w, services, &request, now, once)
	if err != nil || len(drafts) == 0 {
		return done, err
	}
	for i := range drafts {
		drafts[i].Key = who.Bounded()
	}
	recipients, err := done.submit(ctx, submitter, once, drafts)
	if err != nil {
		return nil, s.notAccepted(w, err, repeatMessages)
	}
	s.rates.spend(who, recipients)
	return done, nil
}

// submit hands in the drafts of the accepted messages, and returns how many
// recipients those have that can be sent.
func (o *messagesOutcome) submit(ctx context.Context, to mail.Submitter, once string, drafts []mail.Draft) (recipients int, err error) {
	ids, err := to.Submit(ctx, once, drafts)
	// They may be refused for one reason and then others for the next; each time
	// there are fewer.
	for refused, ok := errors.AsType[sluice.Refusals](err); ok; refused, ok = errors.AsType[sluice.Refusals](err) {
		if drafts = o.without(drafts, refused); len(drafts) == 0 {
			return 0, nil
		}
		ids, err = to.Submit(ctx, once, drafts)
	}
	for i := range ids {
		o.Messages[i].ID = ids[i]
		recipients += o.Messages[i].Recipients
	}
	return recipients, err
}

// without takes out of the drafts those that are refused.
func (o *messagesOutcome) without(drafts []mail.Draft, refused sluice.Refusals) (left []mail.Draft) {
	messages := o.Messages
	o.Messages, o.Accepted = messages[:0], 0
	for i := range drafts {
		if len(refused) > 0 && refused[0].Index == i {
			o.refuse(refused[0], messages[i].Index)
			refused = refused[1:]
			continue
		}
		left, o.Messages = append(left, drafts[i]), append(o.Messages, messages[i])
		o.Accepted++
	}
	slices.SortStableFunc(o.Refused, func(a, b errorDetail) int { return cmp.Compare(*a.Index, *b.Index) })
	return left
}

// refuse lists a refusal of the message with an index, if there is room.
func (o *messagesOutcome) refuse(e *sluice.Error, index int) {
	e.Index = index
	if o.RefusedCount++; len(o.Refused) < ingest.MaxListedRefusals {
		o.Refused = append(o.Refused, detail(e, ""))
	}
}

// repeatMessages is what a caller may do whose messages may be in.
const repeatMessages = "With an Idempotency-Key, send it again under the same one: a repeat does no harm"

// drafts reads the messages of a request, each for itself: one that is no good
// costs none of the others.
func (s *Server) drafts(ctx context.Context, w http.ResponseWriter, services *Services, request *ingest.Request, now time.Time, once string) (*messagesOutcome, []mail.Draft, error) {
	reader := messageReader{ctx: ctx, now: now, templates: services.Templates, tracks: services.Tracks}
	done := &messagesOutcome{outcome: outcome{Refused: []errorDetail{}}, Messages: []acceptedMessage{}}
	var drafts []mail.Draft
	var size mail.RequestSize
	for i, text := range request.Items {
		draft, err := reader.read(text, messageID(now, once, i))
		if e, ok := errors.AsType[*sluice.Error](err); ok {
			if e.Code == sluice.CodeUnavailable { // it holds for the request as a whole, which may be repeated
				return nil, nil, e
			}
			done.refuse(e, i)
			continue
		}
		if err != nil {
			s.log.Warn("messages were not accepted: their template could not be looked up", "id", idOf(w), "error", err)
			return nil, nil, refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; nothing of this request was taken in, send it again")
		}
		if err := size.Add(&draft, i); err != nil { // as a whole, before anything is built of it
			return nil, nil, err
		}
		drafts = append(drafts, draft)
		done.Accepted++
		done.Messages = append(done.Messages, acceptedMessage{Index: i, Recipients: len(draft.To)})
	}
	return done, drafts, nil
}

// messageID makes a message's id; that of a request with a name is always the
// same.
func messageID(now time.Time, once string, index int) string {
	if once == "" {
		return sluice.NewMessageID(now.UnixMilli())
	}
	return sluice.NamedMessageID(now.UnixMilli(), once, index)
}
