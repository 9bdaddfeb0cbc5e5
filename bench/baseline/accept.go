package baseline

import (
	"bufio"
	"encoding/json"
	"net/http"
)

// maxLineBytes bounds an event of a request.
const maxLineBytes = 64 << 10

// Accept takes in events by HTTP as published (SYSTEMS: API buffering). Each
// event of a request, one a line, is checked and pushed to a list by an RPUSH
// of its own. A flush elsewhere takes them from there. All RPUSHes of a request
// travel in one round trip, and the answer, 202, comes after them: more than is
// said of the published API. A request that fails half-way is half in, and a
// repeat doubles that half.
func Accept(redis *Redis, list string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var groups [][]string
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, maxLineBytes)
		for lines.Scan() {
			if !json.Valid(lines.Bytes()) {
				http.Error(w, "not JSON", http.StatusBadRequest)
				return
			}
			groups = append(groups, []string{lines.Text()})
		}
		if err := lines.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := redis.Push(r.Context(), list, groups...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}
