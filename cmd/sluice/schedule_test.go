package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/ops/alert"
	"sluice/store/sqlstore"
)

// putInDoubt has a schedule that waits stand in doubt, due a minute ago, and unreadable if
// the test wants so.
func (s *served) putInDoubt(t *testing.T, id string, unreadable bool) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), "sqlite:"+s.database(), calm)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	row, err := store.Schedule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	request, err := schedule.Parse(row.Request)
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(-time.Minute)
	request.Time = due.UTC().Format(time.RFC3339)
	if row.Request, err = request.Text(); err != nil {
		t.Fatal(err)
	}
	if unreadable {
		row.Request = "?"
	}
	row.State, row.DueMillis = mail.ScheduleInDoubt, due.UnixMilli()
	if err := store.ChangeSchedule(t.Context(), row); err != nil {
		t.Fatal(err)
	}
}

// Scheduled mails in doubt are counted and listed. One that is released is sent, to those
// who want it then; one that is dropped is not, and one that cannot be read is never
// released.
func TestSchedulesInDoubt(t *testing.T) {
	t.Parallel()
	url, messages := hook(t)
	s, relay := startSending(t, "SLUICE_ALERTS_WEBHOOK="+url, "SLUICE_ALERTS_SECRET=0123456789abcdef", "SLUICE_ALERTS_HOLD_SECONDS=0", "SLUICE_ALERTS_DISK_FREE_PERCENT=0")
	later := time.Now().AddDate(0, 0, 2).UTC().Format(time.RFC3339)
	var ids []string
	for _, subject := range []string{"released", "dropped", "unread"} {
		ids = append(ids, s.scheduled(t, subject, `"time":"`+later+`"`))
		s.putInDoubt(t, ids[len(ids)-1], subject == "unread")
	}
	await(t, "they are counted", func() bool { return s.metric(t, "sluice_in_doubt_schedules") == 3 })
	for told := false; !told; {
		told = slices.ContainsFunc((<-messages).Alerts, func(n alert.Notice) bool {
			return n.Alert == alert.InDoubt && n.Subject == "schedules" && strings.Contains(n.Summary, "scheduled mails are in doubt")
		})
	}
	list := mustRun(t, s.dir, "schedule", "list").stdout
	for id, says := range map[string]string{ids[0]: "  to 2 users  from shop@example.com  released\n", ids[1]: "  to 2 users  from shop@example.com  dropped\n", ids[2]: "read the request of a schedule"} {
		if _, line, _ := strings.Cut(list, id); !strings.HasPrefix(line, "  due ") || !strings.Contains(line, says) {
			t.Errorf("%s and %q are not in the list:\n%s", id, says, list)
		}
	}
	if r := mustRun(t, s.dir, "schedule", "list", "--json", "--limit", "2"); strings.Count(r.stdout, `"users":2`) != 2 || !strings.HasSuffix(r.stderr, "there are more: sluice schedule list --after "+ids[1]+"\n") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if out := mustRun(t, s.dir, "schedule", "list", "--after", ids[1]).stdout; strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, ids[2]) {
		t.Errorf("behind the second:\n%s", out)
	}
	if out := mustRun(t, s.dir, "schedule", "drop", ids[1]).stdout; out != "1 dropped, 0 failed\n" {
		t.Errorf("%q", out)
	}
	r := sluiceRun(t, s.dir, "schedule", "release", "--all")
	if r.code != exitFailed || r.stdout != "1 released, 1 failed\n" || !strings.Contains(r.stderr, ids[2]+" cannot be released, only dropped") {
		t.Errorf("%d %q %q", r.code, r.stdout, r.stderr)
	}
	if got := awaitMail(t, relay, 1); !strings.Contains(string(got["ann@example.com"]), "Subject: released\r\n") {
		t.Errorf("%q", got)
	}
	if r := sluiceRun(t, s.dir, "schedule", "drop", ids[1], ids[2], "x"); r.code != exitFailed || r.stdout != "1 dropped, 2 failed\n" || !strings.Contains(r.stderr, "is not in doubt: its state is cancelled") || !strings.Contains(r.stderr, `there is no schedule "x"`) {
		t.Errorf("%d %q %q", r.code, r.stdout, r.stderr)
	}
	if r := mustRun(t, s.dir, "schedule", "list"); r.stderr != "no scheduled mail is in doubt\n" {
		t.Errorf("%q", r.stderr)
	}
	await(t, "none is left", func() bool { return s.metric(t, "sluice_in_doubt_schedules") == 0 })
	if n := len(relay.Mails()); n != 1 {
		t.Errorf("%d mails were sent, want 1", n)
	}
	s.sent(t, http.StatusBadRequest, "/messages/schedule/delete", `{"schedule_id":"`+ids[1]+`"}`)
	s.forgotten(t, ids[1])
}

// forgotten checks that a schedule that is over names nobody any more.
func (s *served) forgotten(t *testing.T, id string) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), "sqlite:"+s.database(), calm)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if row, err := store.Schedule(t.Context(), id); err != nil || row.Request != schedule.Over {
		t.Errorf("schedule %s is over and has %q, %v", id, row.Request, err)
	}
}
