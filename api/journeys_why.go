package api

import (
	"sluice"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
)

const journeyWhyPath = "/v1/journeys/{id}/why"

// whyShown is desk.Why.
type whyShown struct {
	User  userShown   `json:"user"`
	Says  []string    `json:"says"`
	Place *placeShown `json:"place,omitempty"`
	Rules []ruleShown `json:"rules"`
	Mail  []mailShown `json:"mail"`
}

type ruleShown struct {
	Place   string        `json:"place"`
	Finding *rule.Finding `json:"finding"`
}

type mailShown struct {
	Step     string `json:"step"`
	Variant  string `json:"variant,omitempty"`
	Message  string `json:"message"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Accepted string `json:"accepted"`
}

// named is the user whom the members user and by of the query name.
func (q *request) named() (user.Row, *profile.Profile, error) {
	by, name := q.query.Get("by"), q.query.Get("user")
	if by == "" {
		by = "external_id"
	}
	if name == "" || by != "external_id" && by != "braze_id" {
		return user.Row{}, nil, refusal(sluice.CodeInvalid, "want user, and by external_id or braze_id: what user is named by")
	}
	return q.user(q.Context(), map[string][]string{by: {name}})
}

// whyJourney is GET /v1/journeys/{id}/why.
func (q *request) whyJourney() (any, error) {
	row, p, err := q.named()
	if err != nil {
		return nil, err
	}
	w, err := q.Journeys.Why(q.Context(), q.PathValue("id"), q.query.Get("step"), row)
	if err != nil {
		return nil, err
	}
	shown := whyShown{userShown{p.ExternalID, row.ID.String()}, w.Says, nil, []ruleShown{}, []mailShown{}}
	if w.Place != nil {
		place := shownPlace(w.Place)
		shown.Place = &place
	}
	for _, r := range w.Rules {
		shown.Rules = append(shown.Rules, ruleShown(r))
	}
	for _, m := range w.Mail {
		shown.Mail = append(shown.Mail, mailShown{m.Step, m.Variant, m.Message, m.State, m.Reason, timeText(m.AcceptedMillis)})
	}
	return shown, nil
}
