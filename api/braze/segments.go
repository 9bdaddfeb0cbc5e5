package braze

import (
	"context"
	"net/http"

	"sluice/user"
)

const segmentsPage = 100

// listedSegment is a segment in a reply. No counts are kept of one, and it has no
// tags.
type listedSegment struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Tracking bool     `json:"analytics_tracking_enabled"`
	Tags     []string `json:"tags"`
}

// listSegments is GET /segments/list.
func listSegments(ctx context.Context, r *Request) (Reply, error) {
	page, ok := queryInt(r.Query, "page", 0, 0, 1<<31)
	if !ok {
		return refuse("'page' must be a whole number from 0")
	}
	order := r.Query.Get("sort_direction")
	if order != "" && order != "asc" && order != "desc" {
		return refuse("'sort_direction' must be 'asc' or 'desc'")
	}
	found, err := r.Segments.Segments(ctx, user.SegmentQuery{Newest: order == "desc", Skip: min(page, user.MaxSegments) * segmentsPage, Limit: segmentsPage})
	if err != nil {
		return Reply{}, unread(err)
	}
	list := make([]listedSegment, 0, len(found))
	for _, g := range found {
		list = append(list, listedSegment{g.ID, g.Name, false, []string{}})
	}
	return reply(http.StatusOK, struct {
		Segments []listedSegment `json:"segments"`
		Message  string          `json:"message"`
	}{list, success}), nil
}
