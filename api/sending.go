package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
)

// Paths of what an operator does with the mail that waits.
const (
	sendingPath = "/v1/sending"

	maxSendingBytes = 8 << 10 // of a body
	maxStopNote     = 500     // bytes
	maxPurge        = 10_000  // sends of a request
)

// Operator stops mail, lets it go on and purges it. A spool.Operator is one.
type Operator interface {
	Stop(ctx context.Context, s sluice.Selector, note string) error
	Resume(ctx context.Context, s sluice.Selector) (was bool, err error)
	Stopped(ctx context.Context) (map[string]string, error)
	Purge(ctx context.Context, s sluice.Selector, after string, most int, count bool) (n int, next string, err error)
}

// stopShown is something that is stopped.
type stopShown struct {
	By    string `json:"by"`
	Value string `json:"value"`
	Note  string `json:"note"`
}

// sendingRoutes are the paths of sending (INTERFACES.md, section 6).
func (s *Server) sendingRoutes() []route {
	post := []string{http.MethodPost}
	write := func(answer storeAnswer[Operator]) http.HandlerFunc {
		return ofStore(s, func(v *Services) Operator { return v.Operator }, key.SendingRead, key.SendingWrite, map[string]storeAnswer[Operator]{http.MethodPost: answer}, nil)
	}
	return []route{
		{sendingPath, []string{http.MethodGet, http.MethodHead}, ofStore(s, func(v *Services) Operator { return v.Operator }, key.SendingRead, key.SendingWrite, nil, s.showSending)},
		{sendingPath + "/pause", post, write(s.pauseSending)},
		{sendingPath + "/resume", post, write(s.resumeSending)},
		{sendingPath + "/purge", post, write(s.purgeSending)},
	}
}

// showSending is GET /v1/sending.
func (s *Server) showSending(_ http.ResponseWriter, r *http.Request, o Operator) (int, any, error) {
	if _, err := readQuery(r, nil); err != nil {
		return 0, nil, err
	}
	names, err := o.Stopped(r.Context())
	if err != nil {
		return 0, nil, err
	}
	list := struct {
		Stopped []stopShown `json:"stopped"`
	}{[]stopShown{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if sel, ok := sluice.ParseSelector(name); ok {
			list.Stopped = append(list.Stopped, stopShown{sel.By, sel.Value, names[name]})
		}
	}
	return http.StatusOK, list, nil
}

// pauseSending is POST /v1/sending/pause.
func (s *Server) pauseSending(_ http.ResponseWriter, r *http.Request, o Operator) (int, any, error) {
	var sel sluice.Selector
	note := ""
	err := s.readSelected(r, &sel, map[string]*string{"note": &note}, nil)
	if err == nil && (len(note) > maxStopNote || hasControl(note)) {
		err = refusal(sluice.CodeInvalid, "note: want at most %d bytes without control characters", maxStopNote)
	}
	if err == nil {
		err = o.Stop(r.Context(), sel, note)
	}
	if errors.Is(err, sluice.ErrFull) {
		err = refusal(sluice.CodeInvalid, "%d things are stopped already, the most that can be; let some go on", sluice.MaxStops)
	}
	return http.StatusOK, map[string]bool{"stopped": true}, err
}

// resumeSending is POST /v1/sending/resume.
func (s *Server) resumeSending(_ http.ResponseWriter, r *http.Request, o Operator) (int, any, error) {
	var sel sluice.Selector
	if err := s.readSelected(r, &sel, nil, nil); err != nil {
		return 0, nil, err
	}
	was, err := o.Resume(r.Context(), sel)
	return http.StatusOK, map[string]bool{"was_stopped": was}, err
}

// purged is the answer of a purge.
type purged struct {
	Cancelled int    `json:"cancelled"`
	Next      string `json:"next,omitempty"`
}

// purgeSending is POST /v1/sending/purge. It does a bounded part of it.
func (s *Server) purgeSending(_ http.ResponseWriter, r *http.Request, o Operator) (int, any, error) {
	var sel sluice.Selector
	after, limit := "", int64(maxPurge)
	if err := s.readSelected(r, &sel, map[string]*string{"after": &after}, &limit); err != nil {
		return 0, nil, err
	}
	n, next, err := o.Purge(r.Context(), sel, after, int(limit), false)
	return http.StatusOK, purged{n, next}, err
}

// readSelected reads a body that says which mail is meant, with other texts, and
// a limit if that is given.
func (s *Server) readSelected(r *http.Request, sel *sluice.Selector, texts map[string]*string, limit *int64) error {
	return s.readObject(r, maxSendingBytes, func(text string) error {
		known, by, value := []string{"by", "value"}, "", ""
		all := map[string]*string{"by": &by, "value": &value}
		for name, to := range texts {
			known, all[name] = append(known, name), to
		}
		if limit != nil {
			known = append(known, "limit")
		}
		slices.Sort(known)
		given, err := membersOf(text, known...)
		if err == nil {
			err = textsOf(given, all)
		}
		if err != nil {
			return err
		}
		if v, ok := given["limit"]; ok {
			n, err := strconv.ParseInt(v.Raw, 10, 64)
			if v.Kind != jsonscan.Number || err != nil || n < 1 || n > *limit {
				return refusal(sluice.CodeInvalid, "limit: want a whole number from 1 to %d", *limit)
			}
			*limit = n
		}
		if *sel, err = sluice.NewSelector(by, value); err != nil {
			return refusal(sluice.CodeInvalid, "%v", err)
		}
		return nil
	})
}
