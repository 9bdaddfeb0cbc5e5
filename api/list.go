package api

import "encoding/json"

// list is the answer to a request for a page of a list: its rows under their name, and
// what the next page is asked for by as after, or before, if there is one.
type list[S any] struct {
	name string
	Rows []S
	Next string
}

// MarshalJSON implements json.Marshaler.
func (l list[S]) MarshalJSON() ([]byte, error) {
	rows, err := json.Marshal(l.Rows)
	if err != nil || l.Next == "" {
		return append(append([]byte(`{"`+l.name+`":`), rows...), '}'), err
	}
	next, err := json.Marshal(l.Next)
	return append(append(append([]byte(`{"`+l.name+`":`), rows...), append([]byte(`,"next":`), next...)...), '}'), err
}

// listOf returns a list of all rows.
func listOf[T, S any](name string, rows []T, show func(*T) S) list[S] {
	return list[S]{name: name, Rows: shownOf(rows, show)}
}

func shownOf[T, S any](rows []T, show func(*T) S) []S {
	shown := make([]S, len(rows))
	for i := range rows {
		shown[i] = show(&rows[i])
	}
	return shown
}

// readList reads a page of a list: as many rows as the query asks for with limit, preset
// if it does not. read is asked for one more, by which it is known whether there are
// more; nextOf is the after, or before, of the page behind a row.
func readList[T, S any](q query, name string, preset, most int, read func(limit int) ([]T, error), show func(*T) S, nextOf func(*T) string) (l list[S], err error) {
	limit, err := q.number("limit", preset, most)
	if err != nil {
		return l, err
	}
	found, err := read(limit + 1)
	if err != nil {
		return l, err
	}
	l = listOf(name, found[:min(limit, len(found))], show)
	if len(found) > limit {
		l.Next = nextOf(&found[limit-1])
	}
	return l, nil
}
