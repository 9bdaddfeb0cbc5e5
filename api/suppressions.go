package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/mail/suppress"
	"sluice/user/profile"
)

// suppressionsPath is where suppressions are.
const suppressionsPath = "/v1/suppressions"

// Bounds of suppressions in requests.
const (
	maxSuppressions     = 1000    // of a request, and of a page
	defaultSuppressions = 100     // of a page
	maxSuppressionBytes = 1 << 20 // of a body

	// sourceAPI begins the sources of what came by a key of the API.
	sourceAPI = "api:"
)

// suppressionShown is a suppression in an answer.
type suppressionShown struct {
	Entry   string `json:"entry"`
	Reason  string `json:"reason"`
	Scope   string `json:"scope"`
	App     string `json:"app_id"`
	Source  string `json:"source"`
	Time    string `json:"time"`
	Ends    string `json:"ends,omitempty"`
	Removed bool   `json:"removed"`
}

func shownSuppression(s *sluice.Suppression) suppressionShown {
	shown := suppressionShown{
		Entry: s.Entry, Reason: s.Reason.String(), Scope: s.Scope.String(), App: s.App, Source: s.Source,
		Time: profile.TimeText(s.TimeMillis), Removed: s.Removed,
	}
	if s.EndMillis != 0 {
		shown.Ends = profile.TimeText(s.EndMillis)
	}
	return shown
}

// suppressionRoutes are the paths of suppressions (INTERFACES.md, section 6).
func (s *Server) suppressionRoutes() []route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	return []route{
		{suppressionsPath, append(get, http.MethodPost), func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				s.ofSuppressions(key.SuppressionsWrite, s.addSuppressions)(w, r)
				return
			}
			s.ofSuppressions(key.SuppressionsRead, s.listSuppressions)(w, r)
		}},
		{suppressionsPath + "/remove", post, s.ofSuppressions(key.SuppressionsWrite, s.removeSuppressions)},
		{suppressionsPath + "/check", post, s.ofSuppressions(key.SuppressionsRead, s.checkSuppressions)},
	}
}

// suppressionAnswer answers a request that was let in. items is how much of the
// key's rate it is.
type suppressionAnswer func(r *http.Request, who key.Identity, v *suppress.Service) (body any, items int, err error)

func (s *Server) ofSuppressions(permission key.Permission, answer suppressionAnswer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := s.admitted(w, r, permission)
		v := s.program.Services().Suppressions
		if err == nil && v == nil {
			err = errNotRunning
		}
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		body, items, err := answer(r, who, v)
		s.rates.spend(who, max(1, items))
		if err != nil {
			s.writeError(w, r, s.suppressionError(w, err))
			return
		}
		s.writeJSON(w, http.StatusOK, body)
	}
}

// suppressionError is what a caller is told of an error.
func (s *Server) suppressionError(w http.ResponseWriter, err error) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return err
	}
	s.log.Warn("request about suppressions failed", "id", idOf(w), "error", err)
	return refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; send it again, which does no harm")
}

// listSuppressions is GET /v1/suppressions.
func (s *Server) listSuppressions(r *http.Request, _ key.Identity, v *suppress.Service) (any, int, error) {
	values, err := readQuery(r, []string{"entry", "after", "limit"})
	if err != nil {
		return nil, 0, err
	}
	var list struct {
		Suppressions []suppressionShown `json:"suppressions"`
		Next         string             `json:"next,omitempty"`
	}
	list.Suppressions = []suppressionShown{}
	if values.Has("entry") {
		entry, ok := suppress.ParseEntry(values.Get("entry"))
		if !ok || values.Has("after") || values.Has("limit") {
			return nil, 0, refusal(sluice.CodeInvalid, "entry is %.64q, %s; and neither after nor limit", values.Get("entry"), suppress.WantEntry)
		}
		all, err := v.Store.SuppressionsOf(r.Context(), []string{entry})
		for i := range all {
			list.Suppressions = append(list.Suppressions, shownSuppression(&all[i]))
		}
		return list, 1, err
	}
	limit, err := limitOf(values.Get("limit"), defaultSuppressions, maxSuppressions)
	if err != nil {
		return nil, 0, err
	}
	q := sluice.SuppressionQuery{Limit: limit + 1}
	if values.Has("after") {
		if q.After, err = parseNext(values.Get("after")); err != nil {
			return nil, 0, err
		}
	}
	all, err := v.Store.Suppressions(r.Context(), q)
	if err != nil {
		return nil, 0, err
	}
	for i := range all[:min(limit, len(all))] {
		list.Suppressions = append(list.Suppressions, shownSuppression(&all[i]))
	}
	if len(all) > limit {
		list.Next = nextOf(all[limit-1].Key())
	}
	return list, 1, nil
}

// nextOf names the place behind a suppression.
func nextOf(k sluice.SuppressionKey) string {
	text, err := json.Marshal([4]string{k.Entry, k.Scope.String(), k.App, k.Reason.String()})
	if err != nil {
		panic(err) // four texts
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseNext(next string) (k sluice.SuppressionKey, err error) {
	var parts [4]string
	text, err := base64.RawURLEncoding.DecodeString(next)
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	scope, ok := sluice.ParseScope(parts[1])
	reason, ok2 := sluice.ParseSuppressReason(parts[3])
	k = sluice.SuppressionKey{Entry: parts[0], Scope: scope, App: parts[2], Reason: reason}
	if err != nil || !ok || !ok2 || k.Entry == "" || strings.ContainsRune(k.Entry+k.App, 0) {
		return k, refusal(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", next)
	}
	return k, nil
}

// readSuppressions reads a body: a JSON object with members that are known, each
// once.
func (s *Server) readSuppressions(r *http.Request, known map[string]*jsonscan.Value) (release func(), err error) {
	body, err := s.holdJSON(r, maxSuppressionBytes)
	if err != nil {
		return nil, err
	}
	if err := readMembers(body.text(), "the body", known); err != nil {
		body.release()
		return nil, err
	}
	return body.release, nil
}

// readMembers reads the members of an object.
func readMembers(text, what string, known map[string]*jsonscan.Value) error {
	v, err := jsonscan.Scan(text)
	if err != nil || v.Kind != jsonscan.Object {
		return refusal(sluice.CodeInvalid, "%s is no JSON object", what)
	}
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		to, ok := known[m.Key]
		if !ok || to.Kind != jsonscan.None {
			return refusal(sluice.CodeInvalid, "%.64q is not known in %s, or there twice", m.Key, what)
		}
		*to = m.Value
	}
	return nil
}

// wordOf reads a text that may be left out.
func wordOf(name string, v jsonscan.Value, preset string) (string, error) {
	switch v.Kind {
	case jsonscan.None:
		return preset, nil
	case jsonscan.String:
		return strings.Clone(v.Text()), nil
	}
	return "", refusal(sluice.CodeInvalid, "%s: want a text", name)
}

// elementsOf reads an array of 1 to maxSuppressions elements.
func elementsOf(name string, v jsonscan.Value) (all []jsonscan.Value, err error) {
	if v.Kind == jsonscan.Array {
		e := jsonscan.ReadArray(v.Raw)
		for len(all) <= maxSuppressions && e.Next() {
			all = append(all, e.Value)
		}
	}
	if len(all) == 0 || len(all) > maxSuppressions {
		return nil, refusal(sluice.CodeInvalid, "%s: want an array of 1 to %d", name, maxSuppressions)
	}
	return all, nil
}

// at says which element of an array an error is about.
func at(i int, err error) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return &sluice.Error{Code: e.Code, Message: e.Message, Index: i}
	}
	return err
}

// scopeAndApp reads what all changes have; empty texts where they are left out.
func scopeAndApp(scope, app jsonscan.Value) (sluice.Scope, string, error) {
	word, err := wordOf("scope", scope, sluice.ScopeAll.String())
	if err != nil {
		return 0, "", err
	}
	parsed, ok := sluice.ParseScope(word)
	if !ok {
		return 0, "", refusal(sluice.CodeInvalid, "scope is %.32q, want all or marketing", word)
	}
	name, err := wordOf("app_id", app, "")
	if err == nil && (len(name) > sluice.MaxAppIDBytes || strings.ContainsRune(name, 0)) {
		err = refusal(sluice.CodeInvalid, "app_id has %d bytes, or a zero; want at most %d", len(name), sluice.MaxAppIDBytes)
	}
	return parsed, name, err
}

func reasonOf(v jsonscan.Value) (sluice.SuppressReason, error) {
	word, err := wordOf("reason", v, sluice.SuppressManual.String())
	if err != nil {
		return 0, err
	}
	reason, ok := sluice.ParseSuppressReason(word)
	if !ok {
		return 0, refusal(sluice.CodeInvalid, "reason is %.32q, want one of %v", word, sluice.SuppressReasons)
	}
	return reason, nil
}

func entryOf(v jsonscan.Value) (string, error) {
	text, err := wordOf("entry", v, "")
	if err != nil {
		return "", err
	}
	entry, ok := suppress.ParseEntry(text)
	if !ok {
		return "", refusal(sluice.CodeInvalid, "entry is %.64q, %s", text, suppress.WantEntry)
	}
	return entry, nil
}

// changed is the answer to a change.
type changed struct {
	Changed int `json:"changed"`
}

// addSuppressions is POST /v1/suppressions.
func (s *Server) addSuppressions(r *http.Request, who key.Identity, v *suppress.Service) (any, int, error) {
	var array, force jsonscan.Value
	release, err := s.readSuppressions(r, map[string]*jsonscan.Value{"suppressions": &array, "force": &force})
	if err != nil {
		return nil, 0, err
	}
	defer release()
	all, err := elementsOf("suppressions", array)
	if err != nil {
		return nil, 0, err
	}
	if force.Kind != jsonscan.None && force.Kind != jsonscan.Bool {
		return nil, 0, refusal(sluice.CodeInvalid, "force: want true or false")
	}
	changes := make([]sluice.Suppression, len(all))
	reader := suppress.Reader{Force: force.Kind == jsonscan.Bool && force.Raw == "true", Preset: sluice.Suppression{
		Reason: sluice.SuppressManual, Source: sourceAPI + who.ID, TimeMillis: s.clock.Now().UnixMilli(), Said: true,
	}}
	for i, element := range all {
		if changes[i], err = reader.Parse(element.Raw); err != nil {
			return nil, 0, at(i, refusal(sluice.CodeInvalid, "%s", err))
		}
	}
	n, err := v.Add(r.Context(), changes)
	return changed{n}, len(all), err
}

// removeSuppressions is POST /v1/suppressions/remove.
func (s *Server) removeSuppressions(r *http.Request, who key.Identity, v *suppress.Service) (any, int, error) {
	var array, reason, scope, app jsonscan.Value
	release, err := s.readSuppressions(r, map[string]*jsonscan.Value{"entries": &array, "reason": &reason, "scope": &scope, "app_id": &app})
	if err != nil {
		return nil, 0, err
	}
	defer release()
	all, err := elementsOf("entries", array)
	if err != nil {
		return nil, 0, err
	}
	entries := make([]string, len(all))
	for i, element := range all {
		if entries[i], err = entryOf(element); err != nil {
			return nil, 0, at(i, err)
		}
	}
	var which suppress.Which
	ofScope, ofApp, err := scopeAndApp(scope, app)
	if err != nil {
		return nil, 0, err
	}
	if scope.Kind != jsonscan.None {
		which.Scope = &ofScope
	}
	if app.Kind != jsonscan.None {
		which.App = &ofApp
	}
	if reason.Kind != jsonscan.None {
		one, err := reasonOf(reason)
		if err != nil {
			return nil, 0, err
		}
		which.Reasons = []sluice.SuppressReason{one}
	}
	n, err := v.Remove(r.Context(), entries, which, sourceAPI+who.ID)
	return changed{n}, len(all), err
}

// checkedAddress is what is said of an address.
type checkedAddress struct {
	Address    string `json:"address"`
	Suppressed bool   `json:"suppressed"`
	Reason     string `json:"reason,omitempty"`
	Scope      string `json:"scope,omitempty"`
	Match      string `json:"match,omitempty"`
}

// checkSuppressions is POST /v1/suppressions/check: what our own senders ask, for
// others. It is answered from memory.
func (s *Server) checkSuppressions(r *http.Request, _ key.Identity, v *suppress.Service) (any, int, error) {
	var array, class, app jsonscan.Value
	release, err := s.readSuppressions(r, map[string]*jsonscan.Value{"addresses": &array, "class": &class, "app_id": &app})
	if err != nil {
		return nil, 0, err
	}
	defer release()
	all, err := elementsOf("addresses", array)
	if err != nil {
		return nil, 0, err
	}
	word, err := wordOf("class", class, sluice.ClassMarketing.String())
	if err != nil {
		return nil, 0, err
	}
	of, ok := sluice.ParseClass(word)
	if !ok {
		return nil, 0, refusal(sluice.CodeInvalid, "class is %.32q, want marketing or transactional", word)
	}
	_, ofApp, err := scopeAndApp(jsonscan.Value{}, app)
	if err != nil {
		return nil, 0, err
	}
	results, addresses := make([]checkedAddress, len(all)), make([]string, len(all))
	for i, element := range all {
		address := element.Text()
		if element.Kind != jsonscan.String || len(address) > sluice.MaxEmailBytes || !strings.Contains(address, "@") {
			return nil, 0, at(i, refusal(sluice.CodeInvalid, "address: want a text of at most %d bytes with an @", sluice.MaxEmailBytes))
		}
		addresses[i] = strings.Clone(address)
	}
	for i, address := range addresses {
		if i%suppress.MaxReady == 0 {
			v.List.Ready(addresses[i:])
		}
		results[i].Address = address
		if verdict, suppressed := v.List.Check(address, of, ofApp); suppressed {
			results[i] = checkedAddress{address, true, verdict.Reason.String(), verdict.Scope.String(), verdict.Match.String()}
		}
	}
	return struct {
		Results []checkedAddress `json:"results"`
	}{results}, len(all), nil
}
