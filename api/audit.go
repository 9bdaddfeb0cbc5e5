package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/journey/desk"
	"sluice/lib/jsonscan"
	"sluice/store"
)

// The audit log says of each change by a session who made it, what was sent, and how the
// thing looked just before and just after. That is as GET shows it, without secrets; only
// what differs is kept. Both are read by requests of their own. So a change that somebody
// else makes in between is among the differences, and has an entry as well.

const auditPath = "/v1/audit"

// Bounds of the audit log.
const (
	maxAuditPage    = 200
	maxAuditPath    = maxAuditDetail - 100 // bytes of a path, without its query
	maxAuditMember  = 400                  // bytes of a value
	maxAuditView    = store.MaxAuditView   // bytes of all
	maxUncompared   = 32                   // bytes of all, for auditUncompared
	auditContext    = 40                   // bytes that stand before a difference within a long value
	maxAuditEntries = 20                   // suppressions that are looked at
	auditCut        = "…"
)

// auditViews say how what a path names looks. Other calls look themselves (watch,
// became), have nothing that looks different (a purge, a test mail), or are not looked at:
// decisions, replays, cancelled messages, ended sessions.
var auditViews = map[string]func(*request) (any, error){
	accountPath: (*request).viewAccount,
	keyPath:     (*request).viewKey,
	groupPath:   (*request).viewGroup,

	segmentPath:               (*request).getSegment,
	templatePath:              (*request).viewTemplate,
	templatePath + "/current": (*request).viewTemplate,

	journeyPath:              (*request).viewJourney,
	journeyPath + "/publish": (*request).viewJourney,
	journeyPath + "/pause":   (*request).viewJourney,
	journeyPath + "/resume":  (*request).viewJourney,
	journeyPath + "/stop":    (*request).viewJourney,
	journeyPath + "/archive": (*request).viewJourney,

	webhookPath:             (*request).viewWebhook,
	webhookPath + "/rotate": (*request).viewWebhook,

	sendingPath + "/pause":  (*request).showSending,
	sendingPath + "/resume": (*request).showSending,

	importPath + "/finish": (*request).viewImport,
	importPath + "/undo":   (*request).viewImport,

	deadLetterPath: (*request).viewDead,
}

// one is the element of a list that shows it; nil: there is none.
func one[T, S any](all []T, err error, is func(*T) bool, shown func(*T) S) (any, error) {
	if i := slices.IndexFunc(all, func(x T) bool { return is(&x) }); err == nil && i >= 0 {
		return shown(&all[i]), nil
	}
	return nil, err
}

func (q *request) viewAccount() (any, error) {
	all, err := q.AccountStore.Accounts(q.Context())
	return one(all, err, func(a *store.Account) bool { return a.ID == q.PathValue("id") }, shownAccount)
}

func (q *request) viewKey() (any, error) {
	all, err := q.Keys.APIKeys(q.Context())
	return one(all, err, func(k *store.APIKey) bool { return k.ID == q.PathValue("id") }, shownKey)
}

func (q *request) viewGroup() (any, error) {
	all, err := q.Groups.Groups(q.Context())
	return one(all, err, func(g *store.Group) bool { return g.ID == q.PathValue("id") }, shownGroup)
}

// viewTemplate is a template with its current version.
func (q *request) viewTemplate() (any, error) {
	t, err := q.template()
	if err != nil {
		return nil, err
	}
	v, err := q.Templates.TemplateVersion(q.Context(), t.ID, 0)
	return shownVersion(&t, &v), err
}

// viewJourney is a journey with its draft. What it counts changes by itself, and takes
// long to add up.
func (q *request) viewJourney() (any, error) {
	j, err := q.Journeys.Draft(q.Context(), q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return journeyInFull{journeyShown: shownJourney(&j), Document: json.RawMessage(j.Draft)}, nil
}

func (q *request) viewWebhook() (any, error) {
	w, err := q.Webhooks.Store.Webhook(q.Context(), q.PathValue("id"))
	return q.auditWebhook(&w), err
}

// auditWebhook is a webhook of whose URL there is only scheme and host: its path may be a
// secret.
func (q *request) auditWebhook(w *store.Webhook) webhookShown {
	shown := q.shownWebhook(w)
	shown.URL = originOf(w.URL)
	return shown
}

// viewDead is a dead letter without its payload.
func (q *request) viewDead() (any, error) {
	d, err := q.deadLetter()
	return shownDead(&d), err
}

// watchSuppressions is watch of the suppressions of some entries: of the first
// maxAuditEntries, which are as many as the log has room for.
func (q *request) watchSuppressions(entries []string) error {
	q.uncompared = max(0, len(entries)-maxAuditEntries)
	return q.watch(func(q *request) (any, error) {
		all, err := q.Suppressions.Store.SuppressionsOf(q.Context(), entries[:min(len(entries), maxAuditEntries)])
		shown := make(map[string]any)
		for i := range all {
			s := shownSuppression(&all[i])
			shown[strings.TrimSpace(s.Entry+" "+s.Scope+" "+s.App+" "+s.Reason)] = s
		}
		return shown, err
	})
}

// watch looks at what is about to be changed by a session, and has it looked at again
// once it is changed. What cannot be looked at is not changed.
func (q *request) watch(view func(*request) (any, error)) error {
	if a, ok := q.w.(*answer); !ok || a.audit == "" || view == nil {
		return nil
	}
	before, err := q.looksLike(q.Context(), view)
	if err == nil {
		q.before, q.view = before, view
	}
	return err
}

// became says how something looks that a session has made.
func (q *request) became(shown any) { q.after = shown }

// looksLike is how something looks now; nil: it is not there. It takes auditTimeout at most.
func (q *request) looksLike(ctx context.Context, view func(*request) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	asked := *q
	asked.Request, asked.query = q.WithContext(ctx), query{}
	shown, err := view(&asked)
	if isNotFound(err) {
		return nil, nil
	}
	return shown, err
}

// noteView has the audit log show what a change has changed, also of a client that has
// hung up.
func (q *request) noteView() {
	a, ok := q.w.(*answer)
	if !ok || a.audit == "" {
		return
	}
	after := q.after
	if q.view != nil {
		var err error
		if after, err = q.looksLike(context.WithoutCancel(q.Context()), q.view); err != nil {
			q.s.log.Warn("how a change looks is not in the audit log", "id", a.id, "error", err)
			after = map[string]string{auditCut: "not known, as the database did not answer"}
		}
	}
	a.before, a.after = differences(q.before, after)
	if q.uncompared > 0 {
		rest, comma := strings.TrimPrefix(a.after, "{"), ","
		if rest == "" {
			rest, comma = "}", ""
		}
		a.after = fmt.Sprintf(`{"%s":%d%s%s`, auditUncompared, q.uncompared, comma, rest)
	}
}

// auditUncompared is the member of "after" that says of how many entries of a request
// nothing is compared.
const auditUncompared = "not_compared"

// isNotFound reports whether an error says that there is no such thing.
func isNotFound(err error) bool {
	e, ok := err.(*sluice.Error)
	return ok && e.Code == sluice.CodeNotFound
}

// auditTimes are members that change with everything else.
var auditTimes = []string{"updated", "written"}

// differences returns as JSON what of two things differs, of each its own; empty: nothing.
func differences(before, after any) (was, is string) {
	old, now := membersOf(before), membersOf(after)
	differ := make(map[string]bool)
	for _, all := range []map[string]json.RawMessage{old, now} {
		for name := range all {
			if !slices.Contains(auditTimes, name) && !bytes.Equal(old[name], now[name]) {
				differ[name] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(differ))
	return chosen(old, now, names), chosen(now, old, names)
}

// membersOf are those of what is shown.
func membersOf(shown any) (members map[string]json.RawMessage) {
	_ = json.Unmarshal(plainJSON(shown), &members) // what is no object has none
	return members
}

// plainJSON is JSON in which HTML stands as it is.
func plainJSON(of any) json.RawMessage {
	text, _ := jsonscan.Marshal(of) // what is shown has a form
	return text
}

// chosen is an object of some members, of those that are long what differs from others.
// What is too much is left out, and auditCut says so.
func chosen(of, other map[string]json.RawMessage, names []string) string {
	var b strings.Builder
	for _, name := range names {
		value, ok := of[name]
		if !ok {
			continue
		}
		member := "," + string(plainJSON(clipTo(name, maxAuditMember/2))) + ":" + shortened(string(value), string(other[name]), name, maxAuditMember)
		if b.Len()+len(member) > maxAuditView-len(","+cutMember+"}")-maxUncompared {
			b.WriteString("," + cutMember)
			break
		}
		b.WriteString(member)
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String()[1:] + "}"
}

// auditShown is an entry of the audit log.
type auditShown struct {
	ID      string          `json:"id"`
	Time    string          `json:"time"`
	Account string          `json:"account"`
	Name    string          `json:"name"`
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Status  int             `json:"status"`
	Detail  string          `json:"detail"`
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

// objectOf is a view as it is kept; one that an erasure has replaced is a text.
func objectOf(view string) json.RawMessage {
	if view == "" || json.Valid([]byte(view)) {
		return json.RawMessage(view)
	}
	text, _ := json.Marshal(map[string]string{auditCut: view}) // texts have a form
	return text
}

// listAudit is GET /v1/audit, the newest first.
func (q *request) listAudit() (any, error) {
	before := q.query.Get("before")
	if len(before) > maxRequestIDBytes || !saneID(before) && before != "" {
		return nil, errBefore(before)
	}
	return readList(q.query, "entries", maxAuditPage, maxAuditPage, func(limit int) ([]store.AuditEntry, error) {
		return q.AccountStore.Audit(q.Context(), before, limit)
	}, func(e *store.AuditEntry) auditShown {
		return auditShown{e.ID, timeText(e.TimeMillis), e.Account, e.Name, e.Method, e.Path, e.Status, e.Detail, objectOf(e.Before), objectOf(e.After)}
	}, func(e *store.AuditEntry) string { return e.ID })
}

// auditQuery is what the query of a change may say for the audit log to keep it, by its
// member. All else that somebody writes there may name a person, where no erasure looks.
var auditQuery = map[string]func(value string) bool{
	"revision": isNumber,
	"offset":   isNumber, // of a piece of an import
	"overdue":  func(value string) bool { return value == string(desk.OverdueSend) || value == string(desk.OverdueSkip) },
}

func isNumber(value string) bool {
	_, err := strconv.ParseUint(value, 10, 64)
	return err == nil
}

// auditPathOf is the path of a change with what of its query the audit log keeps; auditCut
// stands for the rest. No segment is cut: it may be a name.
func auditPathOf(u *url.URL) string {
	path := u.EscapedPath()
	if len(path) > maxAuditPath {
		path = path[:strings.LastIndexByte(path[:maxAuditPath], '/')+1] + auditCut
	}
	if u.RawQuery == "" {
		return clip(path)
	}
	kept, left := make(map[string]string), ""
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		member, value, _ := strings.Cut(pair, "=")
		if may := auditQuery[member]; may != nil && may(value) {
			kept[member] = pair
		} else {
			left = auditCut
		}
	}
	var all []string
	for _, member := range slices.Sorted(maps.Keys(kept)) {
		all = append(all, kept[member])
	}
	if left != "" {
		all = append(all, left)
	}
	return clip(path + "?" + strings.Join(all, "&"))
}

// noteSent has the audit log show what a session has sent, unless something was said of it.
func noteSent(w http.ResponseWriter, body func() string) {
	if a, ok := w.(*answer); ok && a.audit != "" && a.detail == "" {
		a.detail = shortBody(body(), maxAuditDetail)
	}
}

// sentItems is what the audit log shows of a request with items: one item as it is, several
// as an array. What is no JSON is left out: no erasure would find whom it names.
func sentItems(items []string) string {
	if len(items) == 1 && json.Valid([]byte(items[0])) {
		return items[0]
	}
	var b strings.Builder
	for _, item := range items {
		if b.WriteByte(','); b.Len() > 2*maxAuditDetail || !json.Valid([]byte(item)) {
			item = cutText
		}
		if b.WriteString(item); b.Len() > 2*maxAuditDetail {
			break // shortBody cuts it anyway
		}
	}
	return "[" + strings.TrimPrefix(b.String(), ",") + "]"
}

// sentObject is what the audit log shows of an object: without some members, which are
// secret. What is no object is not shown.
func sentObject(body string, secret ...string) string {
	var b strings.Builder
	m := jsonscan.Read(body)
	for m.Next() {
		if !slices.Contains(secret, m.Key) {
			b.WriteString("," + string(plainJSON(m.Key)) + ":" + m.Value.Raw)
		}
	}
	if m.Err() != nil {
		return sentRefused
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// sentRefused stands for a body that may have a secret, or that cannot be read.
const sentRefused = "a body that was refused"

// says sets what the audit log shows of a request, instead of its body.
func (q *request) says(detail string) {
	if a, ok := q.w.(*answer); ok {
		a.detail = clip(detail)
	}
}
