package api

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Paths of journeys.
const (
	journeysPath     = "/v1/journeys"
	journeyPath      = journeysPath + "/{id}"
	userJourneysPath = "/v1/users/{id}/journeys"
)

// Bounds of journeys in requests.
const (
	maxJourneyBody   = 2 * plan.MaxDocumentBytes // JSON that is indented
	maxJourneyCopy   = 8 << 10
	maxJourneysPage  = 100
	parallelJourneys = 2 // documents that are read or checked
)

// journeyShown is a journey in an answer.
type journeyShown struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	Hold     string `json:"hold,omitempty"`
	Version  int    `json:"version"`
	Revision int64  `json:"revision"`
	Created  string `json:"created"`
	Updated  string `json:"updated"`
}

func shownJourney(j *store.Journey) journeyShown {
	return journeyShown{j.ID, j.Name, j.Status, j.Hold, j.Version, j.Revision, profile.TimeText(j.CreatedMillis), profile.TimeText(j.UpdatedMillis)}
}

// journeyInFull is a journey with its document and counts.
type journeyInFull struct {
	journeyShown
	Document json.RawMessage  `json:"document"`
	Versions []journeyVersion `json:"versions"`
	Counts   *desk.Counts     `json:"counts"`
	Stays    *journeyStays    `json:"stays,omitempty"`
}

// journeyStays are the steps at which people stay who are due.
type journeyStays struct {
	Steps []journeyStay `json:"steps"`
	More  bool          `json:"more"`
}

type journeyStay struct {
	Step   string          `json:"step"`
	People int64           `json:"people"`
	Since  string          `json:"since,omitempty"`
	Reason desk.StayReason `json:"reason"`
	Why    string          `json:"why"`
}

func shownStays(s *desk.Shown) *journeyStays {
	if s.StaysUnknown != nil {
		return nil
	}
	shown := &journeyStays{Steps: make([]journeyStay, len(s.Stays.Steps)), More: s.Stays.More}
	for i, x := range s.Stays.Steps {
		shown.Steps[i] = journeyStay{x.Step, x.People, timeText(x.SinceMillis), x.Reason, x.Why}
	}
	return shown
}

// journeyVersion is a version that people may be inside.
type journeyVersion struct {
	Version   int    `json:"version"`
	Published string `json:"published"`
}

// journeyChecked says what is wrong with a document.
type journeyChecked struct {
	Valid    bool           `json:"valid"`
	Problems []plan.Problem `json:"problems"`
	Warnings []desk.Warning `json:"warnings"`
}

// journeyPublished is a journey, and what of it may not do what its author means.
type journeyPublished struct {
	journeyShown
	Warnings []desk.Warning `json:"warnings"`
}

// listJourneys is GET /v1/journeys.
func (q *request) listJourneys() (any, error) {
	after := q.query.Get("after")
	if after != "" && !journey.ValidID(after) {
		return nil, errAfter(after)
	}
	archived, err := q.query.archived()
	if err != nil {
		return nil, err
	}
	return readList(q.query, "journeys", maxJourneysPage, maxJourneysPage, func(limit int) ([]store.Journey, error) {
		return q.Journeys.List(q.Context(), after, archived, limit)
	}, shownJourney, func(j *store.Journey) string { return j.ID })
}

// written reads a body that is a document, JSON or YAML; empty: there is none. done
// gives the place back that reading it takes: YAML can be made to take long.
func (q *request) written() (w desk.Written, done func(), err error) {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	switch kind {
	case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml":
		w.YAML = true
	default:
		if f, err := formOf(q.Header.Get("Content-Type")); err != nil || f != formJSON {
			return w, nil, &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Type is not understood; send application/json or application/yaml")}
		}
	}
	if _, q.held, err = q.s.hold(q.Request, q.who, nil, maxJourneyBody); err != nil {
		return w, nil, err
	}
	w.Text = strings.Clone(q.held.text())
	done, err = q.readsJourney()
	return w, done, err
}

// readsJourney takes a place for reading or checking a document.
func (q *request) readsJourney() (done func(), err error) {
	return takeAny(q.s.journeys, "journeys are being checked")
}

// addJourney is POST /v1/journeys.
func (q *request) addJourney() (any, error) {
	w, done, err := q.written()
	if err != nil {
		return nil, err
	}
	defer done()
	j, err := q.Journeys.Create(q.Context(), w)
	return q.madeJourney(j, err)
}

func (q *request) madeJourney(j store.Journey, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	q.w.Header().Set("Location", journeysPath+"/"+j.ID)
	q.status = http.StatusCreated
	q.became(shownJourney(&j))
	return shownJourney(&j), nil
}

// getJourney is GET /v1/journeys/{id}.
func (q *request) getJourney() (any, error) {
	version, err := q.query.number("version", 0, store.MaxVersions)
	if err != nil {
		return nil, err
	}
	s, err := q.Journeys.Show(q.Context(), q.PathValue("id"), version)
	if err != nil {
		return nil, err
	}
	full := journeyInFull{shownJourney(&s.Journey), json.RawMessage(s.Document), []journeyVersion{}, s.Counts, shownStays(s)}
	if s.StaysUnknown != nil {
		q.s.log.Warn("who stays in a journey is not shown: where people are was not read", "id", idOf(q.w), "error", s.StaysUnknown)
	}
	for _, v := range s.Used {
		full.Versions = append(full.Versions, journeyVersion{v.Version, profile.TimeText(v.CreatedMillis)})
	}
	return full, nil
}

// revision reads that of the journey as the caller has read it; preset: it is not given.
func (q query) revision(preset int64) (int64, error) {
	text := q.Get("revision")
	if text == "" && preset < 0 {
		return preset, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refusal(sluice.CodeInvalid, "revision is %.32q, want that of the journey as you have read it", text)
	}
	return n, nil
}

// putJourney is PUT /v1/journeys/{id}.
func (q *request) putJourney() (any, error) {
	revision, err := q.query.revision(0)
	if err != nil {
		return nil, err
	}
	w, done, err := q.written()
	if err != nil {
		return nil, err
	}
	defer done()
	j, err := q.Journeys.Update(q.Context(), q.PathValue("id"), revision, w)
	if err != nil {
		return nil, err
	}
	return shownJourney(&j), nil
}

// validateJourney is POST /v1/journeys/{id}/validate: of the document that is sent, of
// the draft if none is.
func (q *request) validateJourney() (any, error) {
	w, done, err := q.written()
	if err != nil {
		return nil, err
	}
	defer done()
	var checked *desk.Checked
	if w.Text == "" {
		checked, err = q.Journeys.ValidateDraft(q.Context(), q.PathValue("id"))
	} else {
		checked, err = q.Journeys.Validate(q.Context(), w)
	}
	if r, ok := errors.AsType[*desk.Refused](err); ok {
		return journeyChecked{false, r.Problems, []desk.Warning{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return journeyChecked{true, []plan.Problem{}, checked.Warnings}, q.sameID(checked)
}

// sameID refuses a document that is of another journey than the path.
func (q *request) sameID(c *desk.Checked) error {
	if id := q.PathValue("id"); c.Document.ID != id {
		return refusal(sluice.CodeInvalid, "id is %.64q in the body and %.64q in the path", c.Document.ID, id)
	}
	return nil
}

// publishJourney is POST /v1/journeys/{id}/publish.
func (q *request) publishJourney() (any, error) {
	revision, err := q.query.revision(-1)
	if err != nil {
		return nil, err
	}
	done, err := q.readsJourney()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := q.Journeys.Publish(q.Context(), q.PathValue("id"), revision)
	if err != nil {
		return nil, err
	}
	return journeyPublished{shownJourney(&p.Journey), p.Warnings}, nil
}

// setJourney returns what answers POST /v1/journeys/{id}/pause and the like.
func setJourney(c desk.Change) func(*request) (any, error) {
	return func(q *request) (any, error) {
		j, err := q.Journeys.SetStatus(q.Context(), q.PathValue("id"), c)
		if err != nil {
			return nil, err
		}
		return shownJourney(&j), nil
	}
}

// resumeJourney is POST /v1/journeys/{id}/resume.
func (q *request) resumeJourney() (any, error) {
	j, err := q.Journeys.Resume(q.Context(), q.PathValue("id"), desk.Overdue(q.query.Get("overdue")))
	if err != nil {
		return nil, err
	}
	return shownJourney(&j), nil
}

// copyJourney is POST /v1/journeys/{id}/copy: {"id": "...", "name": "..."}.
func (q *request) copyJourney() (any, error) {
	id, name := "", ""
	if _, err := q.object(maxJourneyCopy, field{"id", &id}, field{"name", &name}); err != nil {
		return nil, err
	}
	j, err := q.Journeys.Copy(q.Context(), q.PathValue("id"), id, name)
	return q.madeJourney(j, err)
}

// placeShown is where a user is in a journey.
type placeShown struct {
	Journey    string `json:"journey"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Version    int    `json:"version"`
	State      string `json:"state"`
	Step       string `json:"step"`
	StepName   string `json:"step_name,omitempty"`
	Due        string `json:"due,omitempty"`
	Entered    string `json:"entered"`
	Occurrence int    `json:"occurrence"`

	Path []desk.PathStep `json:"path,omitempty"`
}

func shownPlace(x *desk.Place) placeShown {
	return placeShown{x.Journey, x.Name, x.Status, x.Version, x.State.String(), x.Step, x.StepName, timeText(x.DueMillis), timeText(x.Entered), x.Occurrence, x.Path}
}

// userOfPath is the user whom the path names, by what the query says.
func (q *request) userOfPath() (row user.Row, p *profile.Profile, err error) {
	by := q.query.Get("by")
	if by == "" {
		by = "external_id"
	}
	if by != "external_id" && by != "braze_id" {
		return row, nil, refusal(sluice.CodeInvalid, "by is %.32q, want external_id or braze_id: what the path names the user by", by)
	}
	return q.user(q.Context(), map[string][]string{by: {q.PathValue("id")}})
}

// userJourneys is GET /v1/users/{id}/journeys.
func (q *request) userJourneys() (any, error) {
	row, p, err := q.userOfPath()
	if err != nil {
		return nil, err
	}
	places, err := q.Journeys.PlacesOf(q.Context(), row.ID)
	return struct {
		User     userShown    `json:"user"`
		Journeys []placeShown `json:"journeys"`
	}{userShown{p.ExternalID, row.ID.String()}, shownOf(places, shownPlace)}, err
}
