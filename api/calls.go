package api

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/journey/desk"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
)

// call is a row of the table below: a request of /v1 that is answered with JSON out of
// what the program keeps.
type call struct {
	method, path string
	permission   key.Permission // that its key needs
	query        string         // names that its query may have; anyQuery: they are not looked at here
	answer       func(*request) (body any, err error)
	again        string // what to do if the database does not answer; empty: ask again
}

// anyQuery stands for a query that the gate does not read.
const anyQuery = "*"

// noHarm is what to do with a request that may be in.
const noHarm = "send it again, which does no harm"

// lookWhether is what to do with a request that, sent again, would make a second one.
const lookWhether = "look whether it was made, by GET"

// lookVersion is lookWhether of what, sent again, would make another version.
const lookVersion = "look whether the version was made, by GET"

// calls is the table of what goes through the gate as a whole. A new call is a row here,
// its function, and its description in openapi.json.
var calls = []call{
	{"GET", segmentsPath, key.SegmentsRead, "after limit archived", (*request).listSegments, ""},
	{"POST", segmentsPath, key.SegmentsWrite, "", (*request).addSegment, lookWhether},
	{"GET", segmentPath, key.SegmentsRead, anyQuery, (*request).getSegment, ""},
	{"PUT", segmentPath, key.SegmentsWrite, "", (*request).putSegment, ""},
	{"DELETE", segmentPath, key.SegmentsWrite, anyQuery, (*request).archiveSegment, ""},
	{"GET", segmentPath + "/count", key.SegmentsRead, "", (*request).countSegment, ""},
	{"GET", segmentPath + "/members", key.SegmentsRead, "after limit", (*request).segmentMembers, ""},
	{"GET", segmentPath + "/explain", key.SegmentsRead, "external_id braze_id", (*request).explainSegment, ""},

	{"GET", templatesPath, key.TemplatesRead, "after limit archived", (*request).listTemplates, ""},
	{"POST", templatesPath, key.TemplatesWrite, "", (*request).addTemplate, ""},
	{"GET", templatePath, key.TemplatesRead, "version", (*request).getTemplate, ""},
	{"PUT", templatePath, key.TemplatesWrite, "", (*request).putTemplate, lookVersion},
	{"DELETE", templatePath, key.TemplatesWrite, anyQuery, (*request).archiveTemplate, ""},
	{"PUT", templatePath + "/current", key.TemplatesWrite, "", (*request).chooseVersion, ""},
	{"POST", templatePath + "/preview", key.TemplatesRead, "", (*request).previewTemplate, ""},
	{"POST", templatePath + "/test", key.MessagesSend, "", (*request).testTemplate, ""},

	{"GET", journeysPath, key.JourneysRead, "after limit archived", (*request).listJourneys, ""},
	{"POST", journeysPath, key.JourneysWrite, "", (*request).addJourney, ""},
	{"GET", journeyPath, key.JourneysRead, "version", (*request).getJourney, ""},
	{"PUT", journeyPath, key.JourneysWrite, "revision", (*request).putJourney, ""},
	{"POST", journeyPath + "/validate", key.JourneysRead, "", (*request).validateJourney, ""},
	{"POST", journeySimulatePath, key.JourneysRead, "people days from seed often opens clicks user by", (*request).simulateJourney, ""},
	{"POST", journeyPath + "/publish", key.JourneysWrite, "revision", (*request).publishJourney, lookVersion},
	{"POST", journeyPath + "/pause", key.JourneysWrite, "", setJourney(desk.Pause), noHarm},
	{"POST", journeyPath + "/resume", key.JourneysWrite, "overdue", (*request).resumeJourney, noHarm},
	{"POST", journeyPath + "/stop", key.JourneysWrite, "", setJourney(desk.Stop), noHarm},
	{"POST", journeyPath + "/archive", key.JourneysWrite, "", setJourney(desk.Archive), noHarm},
	{"POST", journeyPath + "/copy", key.JourneysWrite, "", (*request).copyJourney, ""},
	{"GET", journeyPeoplePath, key.JourneysRead, "step state after limit", (*request).journeyPeople, ""},
	{"GET", journeyWhyPath, key.JourneysRead, "user by step", (*request).whyJourney, ""},
	{"GET", userJourneysPath, key.JourneysRead, "by", (*request).userJourneys, ""},
	{"GET", userTimelinePath, key.PeopleRead, "by kinds before limit", (*request).userTimeline, ""},
	{"GET", usersPath, key.PeopleRead, "q limit", (*request).findUsers, ""},

	{"GET", suppressionsPath, key.SuppressionsRead, "entry after limit", (*request).listSuppressions, noHarm},
	{"POST", suppressionsPath, key.SuppressionsWrite, "", (*request).addSuppressions, noHarm},
	{"POST", suppressionsPath + "/remove", key.SuppressionsWrite, "", (*request).removeSuppressions, noHarm},
	{"POST", suppressionsPath + "/check", key.SuppressionsRead, "", (*request).checkSuppressions, noHarm},

	{"GET", groupsPath, key.GroupsRead, "", (*request).listGroups, ""},
	{"PUT", groupPath, key.GroupsWrite, "", (*request).putGroup, noHarm},
	{"DELETE", groupPath, key.GroupsWrite, anyQuery, (*request).dropGroup, noHarm},

	{"GET", importsPath, key.ImportsRead, "before limit", (*request).listImports, ""},
	{"POST", importsPath, key.ImportsWrite, "", (*request).addImport, "look whether it was begun, by GET"},
	{"POST", importsPath + "/preview", key.ImportsRead, "", (*request).previewImport, ""},
	{"GET", importPath, key.ImportsRead, "", (*request).getImport, ""},
	{"GET", importPath + "/events", key.ImportsRead, "", (*request).countImport, ""},
	{"POST", importPath + "/finish", key.ImportsWrite, "", (*request).finishImport, noHarm},
	{"POST", importPath + "/undo", key.ImportsWrite, "", (*request).undoImport, noHarm},

	{"GET", webhooksPath, key.WebhooksRead, "", (*request).listWebhooks, ""},
	{"POST", webhooksPath, key.WebhooksWrite, "", (*request).addWebhook, lookWhether + ". If it was, its secret is lost: rotate it"},
	{"GET", webhookPath, key.WebhooksRead, "", (*request).getWebhook, ""},
	{"PATCH", webhookPath, key.WebhooksWrite, "", (*request).changeWebhook, noHarm},
	{"DELETE", webhookPath, key.WebhooksWrite, anyQuery, (*request).dropWebhook, noHarm},
	{"POST", webhookPath + "/rotate", key.WebhooksWrite, "", (*request).rotateWebhook, "look whether it was rotated, by GET"},
	{"POST", webhookPath + "/test", key.WebhooksWrite, "", (*request).testWebhook, ""},
	{"POST", webhookPath + "/replay", key.WebhooksWrite, "", (*request).replayWebhook, noHarm},
	{"GET", webhookPath + "/deliveries", key.WebhooksRead, "limit", (*request).webhookDeliveries, ""},

	{"GET", messagePath, key.MessagesSend, anyQuery, (*request).messageLife, ""},
	{"DELETE", messagePath, key.MessagesSend, anyQuery, (*request).cancelMessage, ""},

	{"GET", seriesPath, key.SeriesRead, anyQuery, (*request).series, ""},
	{"GET", reactionsPath, key.SeriesRead, anyQuery, (*request).reactions, ""},
	{"GET", domainPath, key.DomainsRead, "", (*request).checkDomain, ""},

	{"GET", ledgerPath, key.LedgerRead, "", (*request).ledger, ""},
	{"GET", doubtsPath, key.LedgerRead, "after limit", (*request).doubts, ""},
	{"POST", doubtPath, key.LedgerWrite, "", (*request).decide, ""},

	{"GET", sendingPath, key.SendingRead, "", (*request).showSending, ""},
	{"POST", sendingPath + "/pause", key.SendingWrite, "", (*request).pauseSending, ""},
	{"POST", sendingPath + "/resume", key.SendingWrite, "", (*request).resumeSending, ""},
	{"POST", sendingPath + "/purge", key.SendingWrite, "", (*request).purgeSending, ""},

	{"GET", overviewPath, key.StatusRead, "", (*request).overview, ""},
	{"GET", sendsPath, key.StatusRead, "to state user message before limit", (*request).listSends, ""},
	{"GET", deadPath, key.StatusRead, "after limit", (*request).listDead, ""},
	{"GET", deadLetterPath, key.StatusRead, "", (*request).showDead, ""},
	{"DELETE", deadLetterPath, key.LedgerWrite, "", (*request).dropDead, ""},
	{"POST", deadLetterPath + "/replay", key.LedgerWrite, "", (*request).replayDead, ""},

	{"GET", settingsPath, key.AccountsManage, "", (*request).showSettings, ""},
	{"GET", accountsPath, key.AccountsManage, "", (*request).listAccounts, ""},
	{"POST", accountsPath, key.AccountsManage, "", (*request).addAccount, ""},
	{"PUT", accountPath, key.AccountsManage, "", (*request).changeAccount, ""},
	{"DELETE", accountPath, key.AccountsManage, "", (*request).removeAccount, ""},
	{"DELETE", accountPath + "/sessions", key.AccountsManage, "", (*request).endSessions, ""},
	{"GET", keysPath, key.AccountsManage, "", (*request).listKeys, ""},
	{"POST", keysPath, key.AccountsManage, "", (*request).addKey, lookWhether + ". If it was, its text is lost: revoke it"},
	{"DELETE", keyPath, key.AccountsManage, "", (*request).revokeKey, ""},
	{"GET", auditPath, key.AccountsManage, "before limit", (*request).listAudit, ""},

	{"GET", mailboxesPath, key.MailboxesRead, "to before limit", (*request).listMailboxes, ""},
	{"GET", mailboxPath, key.MailboxesRead, "", (*request).showMailbox, ""},
}

// request is a request that the gate has let in, and what it works on. Its body, and
// what was read of it, is there until it is answered.
type request struct {
	*http.Request
	*Services
	s      *Server
	w      http.ResponseWriter
	who    key.Identity
	query  query
	held   held
	items  int // how much of the key's rate it is
	status int // of a good answer

	// Of a change by a session, for the audit log: how what is changed looks, how it
	// looked before, and how it looks after if there is no view.
	view          func(*request) (any, error)
	before, after any
	uncompared    int // of what it changes, how many are not looked at
}

// document is the body of an answer that is no JSON.
type document struct {
	contentType string
	text        []byte
}

// serve returns what answers a call.
func (s *Server) serve(c *call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, s: s, w: w, status: http.StatusOK}
		defer func() { q.held.release() }()
		defer q.noteBody()
		body, err := q.pass(c)
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		if text, ok := body.(document); ok {
			w.Header().Set("Content-Type", text.contentType)
			w.WriteHeader(q.status)
			s.write(w, text.text)
			return
		}
		if body == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.writeJSON(w, q.status, body)
	}
}

// pass lets a request through the gate and has it answered.
func (q *request) pass(c *call) (body any, err error) {
	if q.who, err = q.s.admitted(q.w, q.Request, c.permission); err != nil {
		return nil, err
	}
	q.s.rates.spend(q.who, 1)
	if q.Services = q.s.program.Services(); q.Services == NotRunning {
		return nil, errNotRunning
	}
	if err = storable(q.PathValue("id")); err != nil {
		return nil, err
	}
	if c.query != anyQuery {
		if q.query, err = readQuery(q.Request, strings.Fields(c.query)); err != nil {
			return nil, err
		}
	}
	if err = q.watch(auditViews[c.path]); err != nil {
		return nil, q.s.storeError(q.w, err, "nothing was changed, as how it looked could not be noted in the audit log; try again")
	}
	body, err = c.answer(q)
	if _, refused := errors.AsType[*sluice.Error](err); !refused { // else nothing was done, and this may be
		q.noteView()
	}
	if err != nil {
		err = q.s.storeError(q.w, err, c.again)
	}
	if q.items > 1 {
		q.s.rates.spend(q.who, q.items-1)
	}
	return body, err
}

// storable refuses the id of a path that a database may not look for: PostgreSQL fails at
// such a text.
func storable(id string) error {
	if !utf8.ValidString(id) || hasControl(id) {
		return refusal(sluice.CodeNotFound, "nothing has the id %.64q: it has control characters, or is not UTF-8", id)
	}
	return nil
}

// noteBody has the audit log show what was sent, unless the call has said it.
func (q *request) noteBody() {
	if q.held.body != nil {
		noteSent(q.w, q.held.text)
	}
}

// storeError is what a caller is told of an error of a store, and to do then.
func (s *Server) storeError(w http.ResponseWriter, err error, again string) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return err
	}
	if again == "" {
		again = "ask again"
	}
	s.log.Warn("request about what is stored failed", "id", idOf(w), "error", err)
	told := refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; %s", again)
	if strings.HasPrefix(again, "look ") {
		return &lookError{told}
	}
	return told
}

// object reads the body: one JSON object of at most maxBytes (decode).
func (q *request) object(maxBytes int, known ...field) (given map[string]jsonscan.Value, err error) {
	if q.held, err = q.s.holdJSON(q.Request, q.who, maxBytes); err != nil {
		return nil, err
	}
	return decode(q.held.text(), known...)
}
