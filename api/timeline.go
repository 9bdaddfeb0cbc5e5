package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"sluice"
	"sluice/journey/timeline"
)

const userTimelinePath = "/v1/users/{id}/timeline"

// entryShown is a line of a timeline.
type entryShown struct {
	Kind        timeline.Kind     `json:"kind"`
	Time        string            `json:"time"`
	What        string            `json:"what"`
	Event       *eventShown       `json:"event,omitempty"`
	Mail        *sendFound        `json:"mail,omitempty"`
	Journey     *placeShown       `json:"journey,omitempty"`
	Suppression *suppressionShown `json:"suppression,omitempty"`
	Group       *groupChange      `json:"group,omitempty"`
}

// eventShown is an event of a timeline.
type eventShown struct {
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	App        string          `json:"app_id,omitempty"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

// groupChange is a state in a subscription group.
type groupChange struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

func shownEntry(e *timeline.Entry) entryShown {
	shown := entryShown{Kind: e.Kind, Time: timeText(e.TimeMillis), What: e.What}
	switch {
	case e.Event != nil:
		shown.Event = &eventShown{Kind: e.Event.Kind.String(), Name: e.Event.Name, App: e.Event.App}
		if json.Valid([]byte(e.Event.Properties)) {
			shown.Event.Properties = json.RawMessage(e.Event.Properties)
		}
	case e.Mail != nil:
		found := foundSend(e.Mail)
		shown.Mail = &found
	case e.Place != nil:
		place := shownPlace(e.Place)
		shown.Journey = &place
	case e.Suppression != nil:
		suppression := shownSuppression(e.Suppression)
		shown.Suppression = &suppression
	case e.Group != nil:
		shown.Group = &groupChange{e.Group.ID, "unsubscribed"}
		if e.Group.Subscribed {
			shown.Group.State = "subscribed"
		}
	}
	return shown
}

// readKinds reads kinds, separated by commas; empty: all.
func readKinds(text string) (kinds []timeline.Kind, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		kind := timeline.Kind(word)
		if !slices.Contains(timeline.Kinds, kind) {
			return nil, refusal(sluice.CodeInvalid, "kinds has %.32q, want event, mail, journey, change or consent, separated by commas", word)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// userTimeline is GET /v1/users/{id}/timeline.
func (q *request) userTimeline() (any, error) {
	limit, err := q.query.number("limit", timeline.DefaultEntries, timeline.MaxEntries)
	if err != nil {
		return nil, err
	}
	kinds, err := readKinds(q.query.Get("kinds"))
	if err != nil {
		return nil, err
	}
	row, p, err := q.userOfPath()
	if err != nil {
		return nil, err
	}
	var page timeline.Page
	err = q.look(func(ctx context.Context) (err error) {
		page, err = q.Timeline.Read(ctx, timeline.Asked{Row: row, Profile: p, Kinds: kinds, Before: q.query.Get("before"), Limit: limit})
		return err
	})
	return struct {
		User     userShown    `json:"user"`
		Entries  []entryShown `json:"entries"`
		Next     string       `json:"next,omitempty"`
		LookedTo string       `json:"looked_to,omitempty"`
	}{userShown{p.ExternalID, row.ID.String()}, shownOf(page.Entries, shownEntry), page.Next, timeText(page.LookedMillis)}, err
}
