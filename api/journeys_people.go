package api

import (
	"sluice/journey/desk"
	"sluice/user"
	"sluice/user/segment"
)

const journeyPeoplePath = "/v1/journeys/{id}/people"

// personShown is desk.Person.
type personShown struct {
	User       userShown `json:"user"`
	State      string    `json:"state"`
	Step       string    `json:"step"`
	Due        string    `json:"due,omitempty"`
	Entered    string    `json:"entered"`
	Occurrence int       `json:"occurrence"`
}

// journeyPeople is GET /v1/journeys/{id}/people.
func (q *request) journeyPeople() (any, error) {
	limit, err := q.query.number("limit", desk.MaxPeoplePage, desk.MaxPeoplePage)
	if err != nil {
		return nil, err
	}
	people, next, err := q.Journeys.People(q.Context(), q.PathValue("id"), desk.PeopleAsked{
		Step: q.query.Get("step"), State: q.query.Get("state"), After: q.query.Get("after"), Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	ids := make([]user.ID, len(people))
	for i := range people {
		ids[i] = people[i].ID
	}
	var rows user.Answer
	if len(ids) > 0 {
		if rows, err = q.Users.Users(q.Context(), user.Query{IDs: ids}); err != nil {
			return nil, err
		}
	}
	show := func(x *desk.Person) personShown {
		return personShown{userShown{segment.ExternalIDOf(rows.Users[x.ID].Profile), x.ID.String()}, x.State.String(), x.Step, timeText(x.DueMillis), timeText(x.Entered), x.Occurrence}
	}
	return struct {
		People []personShown `json:"people"`
		Next   string        `json:"next,omitempty"`
	}{shownOf(people, show), next}, nil
}
