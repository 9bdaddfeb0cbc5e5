package api

import (
	"sluice"
	"sluice/store"
	"sluice/user/profile"
)

// Paths of the registry of subscription groups.
const (
	groupsPath = "/v1/groups"
	groupPath  = groupsPath + "/{id}"
)

// maxGroupBytes bounds the body of a group.
const maxGroupBytes = 8 << 10

// groupShown is a subscription group in an answer.
type groupShown struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Public      bool   `json:"public"`
	Order       int    `json:"order"`
	Created     string `json:"created"`
	Updated     string `json:"updated"`
}

func shownGroup(g *store.Group) groupShown {
	return groupShown{g.ID, g.Name, g.Description, g.Public, g.Order, profile.TimeText(g.CreatedMillis), profile.TimeText(g.UpdatedMillis)}
}

// listGroups is GET /v1/groups. There are store.MaxGroups at most: they are one page.
func (q *request) listGroups() (any, error) {
	all, err := q.Groups.Groups(q.Context())
	return listOf("groups", all, shownGroup), err
}

// putGroup is PUT /v1/groups/{id}. What the body does not have gets its default.
func (q *request) putGroup() (any, error) {
	now := q.s.clock.Now().UnixMilli()
	g := store.Group{ID: q.PathValue("id"), Order: store.DefaultGroupOrder, CreatedMillis: now, UpdatedMillis: now}
	_, err := q.object(maxGroupBytes, field{"name", &g.Name}, field{"description", &g.Description}, field{"public", &g.Public}, field{"order", number{&g.Order, store.MaxGroupOrder}})
	if err != nil {
		return nil, err
	}
	if err := q.Groups.PutGroup(q.Context(), g); err != nil {
		return nil, err
	}
	all, err := q.Groups.Groups(q.Context())
	for i := range all {
		if all[i].ID == g.ID {
			return shownGroup(&all[i]), err
		}
	}
	if err == nil {
		err = refusal(sluice.CodeConflict, "somebody else has deleted the group at the same time; send it again to make it anew")
	}
	return nil, err
}

// dropGroup is DELETE /v1/groups/{id}.
func (q *request) dropGroup() (any, error) {
	return nil, q.Groups.DropGroup(q.Context(), q.PathValue("id"))
}
