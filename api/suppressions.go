package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
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

func shownSuppression(s *mail.Suppression) suppressionShown {
	return suppressionShown{s.Entry, s.Reason.String(), s.Scope.String(), s.App, s.Source, profile.TimeText(s.TimeMillis), timeText(s.EndMillis), s.Removed}
}

// listSuppressions is GET /v1/suppressions.
func (q *request) listSuppressions() (any, error) {
	if q.query.Has("entry") {
		entry, ok := suppress.ParseEntry(q.query.Get("entry"))
		if !ok || q.query.Has("after") || q.query.Has("limit") {
			return nil, refusal(sluice.CodeInvalid, "entry is %.64q, %s; and neither after nor limit", q.query.Get("entry"), suppress.WantEntry)
		}
		all, err := q.Suppressions.Store.SuppressionsOf(q.Context(), []string{entry})
		return listOf("suppressions", all, shownSuppression), err
	}
	var after mail.SuppressionKey
	if q.query.Has("after") {
		var err error
		if after, err = parseNext(q.query.Get("after")); err != nil {
			return nil, err
		}
	}
	return readList(q.query, "suppressions", defaultSuppressions, maxSuppressions, func(limit int) ([]mail.Suppression, error) {
		return q.Suppressions.Store.Suppressions(q.Context(), mail.SuppressionQuery{After: after, Limit: limit})
	}, shownSuppression, func(s *mail.Suppression) string { return nextOf(s.Key()) })
}

// nextOf names the place behind a suppression.
func nextOf(k mail.SuppressionKey) string {
	text, err := json.Marshal([4]string{k.Entry, k.Scope.String(), k.App, k.Reason.String()})
	if err != nil {
		panic(err) // four texts
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseNext(next string) (k mail.SuppressionKey, err error) {
	var parts [4]string
	text, err := base64.RawURLEncoding.DecodeString(next)
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	scope, ok := mail.ParseScope(parts[1])
	reason, ok2 := mail.ParseSuppressReason(parts[3])
	k = mail.SuppressionKey{Entry: parts[0], Scope: scope, App: parts[2], Reason: reason}
	if err != nil || !ok || !ok2 || k.Entry == "" || strings.ContainsRune(k.Entry+k.App, 0) {
		return k, errAfter(next)
	}
	return k, nil
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

// checkApp refuses what can be the name of no app.
func checkApp(name string) error {
	if len(name) > sluice.MaxAppIDBytes || strings.ContainsRune(name, 0) {
		return refusal(sluice.CodeInvalid, "app_id has %d bytes, or a zero; want at most %d", len(name), sluice.MaxAppIDBytes)
	}
	return nil
}

// changed is the answer to a change.
type changed struct {
	Changed int `json:"changed"`
}

// addSuppressions is POST /v1/suppressions.
func (q *request) addSuppressions() (any, error) {
	var array jsonscan.Value
	reader := suppress.Reader{Preset: mail.Suppression{Reason: mail.SuppressManual, Source: sourceAPI + q.who.ID, Said: true}}
	_, err := q.object(maxSuppressionBytes, field{"suppressions", &array}, field{"force", &reader.Force})
	if err != nil {
		return nil, err
	}
	all, err := elementsOf("suppressions", array)
	if err != nil {
		return nil, err
	}
	reader.Preset.TimeMillis = q.s.clock.Now().UnixMilli() // when all of the body is there
	changes, entries := make([]mail.Suppression, len(all)), make([]string, len(all))
	for i, element := range all {
		if changes[i], err = reader.Parse(element.Raw); err != nil {
			return nil, at(i, refusal(sluice.CodeInvalid, "%s", err))
		}
		entries[i] = changes[i].Entry
	}
	q.items = len(all)
	if err := q.watchSuppressions(entries); err != nil {
		return nil, err
	}
	n, err := q.Suppressions.Add(q.Context(), changes)
	return changed{n}, err
}

// removeSuppressions is POST /v1/suppressions/remove.
func (q *request) removeSuppressions() (any, error) {
	var array jsonscan.Value
	var reason, scope, app string
	given, err := q.object(maxSuppressionBytes, field{"entries", &array}, field{"reason", &reason}, field{"scope", &scope}, field{"app_id", &app})
	if err != nil {
		return nil, err
	}
	all, err := elementsOf("entries", array)
	if err != nil {
		return nil, err
	}
	entries := make([]string, len(all))
	for i, element := range all {
		entry, ok := suppress.ParseEntry(strings.Clone(element.Text()))
		if entries[i] = entry; !ok || element.Kind != jsonscan.String {
			return nil, at(i, refusal(sluice.CodeInvalid, "entry is %.64q, %s", element.Text(), suppress.WantEntry))
		}
	}
	var which suppress.Which
	if _, ok := given["scope"]; ok {
		parsed, known := mail.ParseScope(scope)
		if which.Scope = &parsed; !known {
			return nil, refusal(sluice.CodeInvalid, "scope is %.32q, want all or marketing", scope)
		}
	}
	if _, ok := given["app_id"]; ok {
		if which.App, err = &app, checkApp(app); err != nil {
			return nil, err
		}
	}
	if _, ok := given["reason"]; ok {
		one, known := mail.ParseSuppressReason(reason)
		if which.Reasons = []mail.SuppressReason{one}; !known {
			return nil, refusal(sluice.CodeInvalid, "reason is %.32q, want one of %v", reason, mail.SuppressReasons)
		}
	}
	q.items = len(all)
	if err := q.watchSuppressions(entries); err != nil {
		return nil, err
	}
	n, err := q.Suppressions.Remove(q.Context(), entries, which, sourceAPI+q.who.ID)
	return changed{n}, err
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
func (q *request) checkSuppressions() (any, error) {
	var array jsonscan.Value
	class, app := mail.ClassMarketing.String(), ""
	_, err := q.object(maxSuppressionBytes, field{"addresses", &array}, field{"class", &class}, field{"app_id", &app})
	if err != nil {
		return nil, err
	}
	all, err := elementsOf("addresses", array)
	if err != nil {
		return nil, err
	}
	of, ok := mail.ParseClass(class)
	if !ok {
		return nil, refusal(sluice.CodeInvalid, "class is %.32q, want marketing or transactional", class)
	}
	if err := checkApp(app); err != nil {
		return nil, err
	}
	results, addresses := make([]checkedAddress, len(all)), make([]string, len(all))
	for i, element := range all {
		address := element.Text()
		if element.Kind != jsonscan.String || len(address) > sluice.MaxEmailBytes || !strings.Contains(address, "@") {
			return nil, at(i, refusal(sluice.CodeInvalid, "address: want a text of at most %d bytes with an @", sluice.MaxEmailBytes))
		}
		addresses[i] = strings.Clone(address)
	}
	for i, address := range addresses {
		if i%suppress.MaxReady == 0 {
			q.Suppressions.List.Ready(addresses[i:])
		}
		results[i].Address = address
		if verdict, suppressed := q.Suppressions.List.Check(address, of, app); suppressed {
			results[i] = checkedAddress{address, true, verdict.Reason.String(), verdict.Scope.String(), verdict.Match.String()}
		}
	}
	q.items = len(all)
	return struct {
		Results []checkedAddress `json:"results"`
	}{results}, nil
}
