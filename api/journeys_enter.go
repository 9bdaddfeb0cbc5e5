package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/api/braze"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/user"
	"sluice/user/profile"
)

// enterJourney is POST /v1/journeys/{id}/enter: an object for each person who is to
// enter, as JSON or NDJSON. An entry is an update of its user, which the store makes a
// fact in the user's partition. Nobody is created.
func (s *Server) enterJourney(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.posted(w, r, key.JourneysEnter, func(in *ingest.Intake, ctx context.Context, request *ingest.Request) (done ingest.Accepted, err error) {
		journeys := s.program.Services().Journeys
		if journeys == nil {
			return done, errNotRunning
		}
		if !sluice.Writes(sluice.JourneyForms) {
			return done, refusal(sluice.CodeUnavailable, "a program of an older version runs beside this one, which does not know entries; nothing was taken in, send it again when that one has ended")
		}
		if len(request.Items) > desk.MaxEntries {
			return done, refusal(sluice.CodeTooLarge, "the request has %d entries, at most %d are possible", len(request.Items), desk.MaxEntries)
		}
		if err := journeys.TakesCalls(ctx, id); err != nil {
			if _, ok := errors.AsType[*sluice.Error](err); ok {
				return done, err
			}
			s.log.Warn("entries were not accepted: the journey could not be looked up", "id", idOf(w), "error", err)
			return done, refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; nothing of this request was taken in, send it again")
		}
		var updates []user.Update
		now := s.clock.Now().UnixMilli()
		for i, text := range request.Items {
			u, err := entry(text)
			if err != nil {
				if done.RefusedItems++; len(done.Refused) < ingest.MaxListedRefusals {
					done.Refused = append(done.Refused, sluice.Error{Code: sluice.CodeInvalid, Message: err.Error(), Index: i})
				}
				continue
			}
			u.Op, u.Name, u.TimeMillis, u.ExistingOnly = user.OpEnter, id, now, true
			updates = append(updates, u)
			done.Items++
		}
		if done.Items == 0 {
			return done, nil
		}
		// Another name than that of other requests under the same key.
		request.Sender = r.URL.Path + " " + request.Sender
		if err := in.UpdateOnce(ctx, request, updates); err != nil {
			return ingest.Accepted{}, err
		}
		return done, nil
	})
}

// entry reads whom an object lets in, and with what context.
func entry(text string) (u user.Update, err error) {
	var context jsonscan.Value
	if !utf8.ValidString(text) {
		return u, errors.New("it is not UTF-8")
	}
	given, err := decode(text, append(fieldsOf("external_id", "braze_id", "user_alias", "email"), field{"context", &context})...)
	if err != nil {
		return u, errors.New(strings.Replace(err.Error(), "the body", "it", 1))
	}
	delete(given, "context")
	if len(given) != 1 {
		return u, errors.New("want one of external_id, braze_id, user_alias and email, which names the user")
	}
	if u.Key, err = braze.UserOf(given); err != nil {
		return u, err
	}
	switch {
	case context.Kind == jsonscan.None:
	case context.Kind != jsonscan.Object:
		return u, &profile.FieldError{Field: "context", Want: "an object"}
	case len(context.Raw) > desk.MaxContextBytes:
		return u, &profile.FieldError{Field: "context", Want: "at most 4096 bytes"}
	default:
		u.Body = context.Raw
	}
	return u, nil
}
