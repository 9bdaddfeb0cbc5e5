package braze

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/user"
)

func TestListSegments(t *testing.T) {
	w := newCore(t)
	shown := make([]string, 0, 102)
	for i := range 102 {
		g := user.Segment{ID: sluice.NewUUID(now.Add(time.Duration(i) * time.Second)), Name: fmt.Sprintf("s\"%d", i), Definition: "{}", CreatedMillis: 1, UpdatedMillis: 1}
		if i == 101 {
			g.ArchivedMillis = 5
		}
		if err := w.store.AddSegment(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, fmt.Sprintf(`{"id":"%s","name":"s\"%d","analytics_tracking_enabled":false,"tags":[]}`, g.ID, i))
	}
	list := func(all ...string) string {
		return `{"segments":[` + strings.Join(all, ",") + `],"message":"success"}`
	}
	for query, want := range map[string]string{
		"": list(shown[:100]...), "?page=0&sort_direction=asc": list(shown[:100]...), "?page=1": list(shown[100]), "?page=2": list(), "?page=1&sort_direction=desc": list(shown[0]), "?page=2147483648": list(),
	} {
		w.check(t, "/segments/list"+query, "", 200, want, "")
	}
	w.check(t, "/segments/list?page=-1", "", 400, "*", "")
	w.check(t, "/segments/list?sort_direction=up", "", 400, "*", "")
}
