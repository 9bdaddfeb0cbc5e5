package braze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/user"
	"sluice/user/profile"
)

// create schedules mail for ann, bob, dan and one who is not there.
func (w *written) create(t *testing.T, when string) (id string) {
	t.Helper()
	status, text := w.call(t, "/messages/schedule/create", `{"external_user_ids":["ann","bob","dan","none"],"override_messaging_limits":true,"schedule":`+when+`,`+anEmail+`}`)
	var b sentBody
	if err := json.Unmarshal([]byte(text), &b); err != nil || status != 201 || len(b.Errors) != 0 || strings.ReplaceAll(b.ScheduleID, "-", "") != b.DispatchID {
		t.Fatalf("%s: %d %s, %v", when, status, text, err)
	}
	return b.ScheduleID
}

// releaser returns a releaser of a core's schedules, whose clock a test moves.
func (w *written) releaser() (*schedule.Releaser, *clocktest.Clock) {
	clock := clocktest.At(now)
	return &schedule.Releaser{Store: w.store, Submitter: w, Clock: clock, Log: slog.New(slog.DiscardHandler)}, clock
}

// pass lets a releaser work and returns what was handed in.
func (w *written) pass(t *testing.T, x *schedule.Releaser) []mail.Draft {
	t.Helper()
	if _, err := x.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	drafts, _ := w.handed(t)
	return drafts
}

// Mail that is scheduled goes when it is time, once, to those who can be mailed
// then.
func TestScheduledMail(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-21T12:00:00+01:00"}`) // 39 m 30 s from now
	clock.Move(39*time.Minute + 29*time.Second)
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("too early: %+v", drafts)
	}
	// Meanwhile dan has got an address.
	p := &profile.Profile{ExternalID: "dan"}
	p.SetAttributes(`{"email":"dan@example.com"}`, now.UnixMilli())
	w.apply(t, store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Partition: 1, Number: 4}, Profile: string(p.Append(nil))}}}})
	clock.Move(time.Second)
	drafts := w.pass(t, x)
	if len(drafts) != 1 || fmt.Sprint(drafts[0].To, drafts[0].Users) != "[ann@example.com bob@xn--bcher-kva.example dan@example.com] [ann bob dan]" || drafts[0].ID != strings.ReplaceAll(id, "-", "") {
		t.Fatalf("%+v", drafts)
	}
	if due := time.UnixMilli(drafts[0].DueMillisOf[2]).UTC().Format(time.RFC3339); due != "2026-11-21T11:00:00Z" || drafts[0].Class != mail.ClassMarketing {
		t.Errorf("due %s, %+v", due, drafts[0])
	}
	clock.Move(24 * time.Hour)
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("again: %+v", drafts)
	}
	for _, path := range []string{"update", "delete"} {
		if status, text := w.call(t, "/messages/schedule/"+path, `{"schedule_id":"`+id+`","schedule":{"time":"2026-12-01T00:00:00Z"}}`); status != 400 || !strings.Contains(text, string(overAlready)) {
			t.Errorf("%s of what is sent: %d %s", path, status, text)
		}
	}
	clock.Move(schedule.Kept)
	w.pass(t, x)
	if _, err := w.store.Schedule(t.Context(), id); err == nil {
		t.Error("its row is kept for ever")
	}
}

// In each user's own zone a schedule is released when it is time in the first
// zone, and due for each user at their time. A user without a known zone has
// UTC.
func TestScheduledInLocalTime(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-22T09:00:00","in_local_time":true}`) // in UTC+14 at 19:00 of the day before
	clock.Move(8*time.Hour + 39*time.Minute)
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("too early: %+v", drafts)
	}
	if _, text := w.call(t, "/messages/scheduled_broadcasts?end_time=2026-11-23", ""); text != `{"scheduled_broadcasts":[{"name":"Hello {{${first_name}}}","id":"`+id+`","type":"Campaign","tags":[],"next_send_time":"2026-11-22T09:00:00","schedule_type":"local_time_zones"}],"message":"success"}` {
		t.Errorf("%s", text)
	}
	clock.Move(time.Minute)
	drafts := w.pass(t, x)
	if len(drafts) != 1 {
		t.Fatalf("%+v", drafts)
	}
	for i, want := range []string{"2026-11-22T09:00:00Z", "2026-11-22T00:00:00Z"} { // ann; bob, in Tokyo
		if due := time.UnixMilli(drafts[0].DueMillisOf[i]).UTC().Format(time.RFC3339); due != want {
			t.Errorf("%s is due at %s, want %s", drafts[0].Users[i], due, want)
		}
	}
	// What has not left yet can be stopped.
	w.left = 1
	if status, text := w.call(t, "/messages/schedule/delete", `{"schedule_id":"`+id+`"}`); status != 201 || fmt.Sprint(w.cancelled) != "["+drafts[0].ID+"]" {
		t.Errorf("%d %s, cancelled %v", status, text, w.cancelled)
	}
}

// A change holds, of time and of mail; what is deleted is not sent.
func TestSchedulesChange(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	moved, gone := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`), w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	for body, path := range map[string]string{
		`{"schedule_id":"` + moved + `","schedule":{"time":"2026-11-22T11:00:00Z"}}`:                                            "update",
		`{"schedule_id":"` + moved + `","messages":{"email":{"app_id":"b","from":"b@example.com","subject":"New","body":"b"}}}`: "update",
		`{"schedule_id":"` + gone + `"}`: "delete",
	} {
		if status, text := w.call(t, "/messages/schedule/"+path, body); status != 201 || text != `{"message":"success"}` {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	clock.Move(24 * time.Hour)
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("sent at its first time, or although it was deleted: %+v", drafts)
	}
	if _, text := w.call(t, "/messages/scheduled_broadcasts?end_time=2026-11-22T10:00:00Z", ""); text != `{"scheduled_broadcasts":[],"message":"success"}` {
		t.Errorf("%s", text)
	}
	clock.Move(time.Hour)
	if _, err := x.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	drafts, contents := w.handed(t)
	if len(drafts) != 1 || drafts[0].From != "b@example.com" || drafts[0].App != "b" || contents[0].Mail.Subject != "New" || len(drafts[0].To) != 2 {
		t.Errorf("%+v", drafts)
	}
}

// refusing is a submitter that hands in nothing, or does and says it has not.
type refusing struct {
	w    *written
	hand bool
}

func (r refusing) Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error) {
	if r.hand {
		_, _ = r.w.Submit(ctx, once, drafts)
	}
	return nil, sluice.ErrFull
}

// A process may die between the two steps of a release. The next one does the
// second step with the same recipients under the same name, or does not, if the
// ledger has all of it.
func TestReleaseGoesOn(t *testing.T) {
	for _, handed := range []bool{false, true} {
		w := newMailing(t)
		x, clock := w.releaser()
		id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
		clock.Move(time.Hour)
		x.Submitter = refusing{w, handed}
		if _, err := x.Pass(t.Context()); !errors.Is(err, sluice.ErrFull) {
			t.Fatal(err)
		}
		before, _ := w.handed(t)
		for _, path := range []string{"update", "delete"} { // its mail leaves when there is room
			status, text := w.call(t, "/messages/schedule/"+path, `{"schedule_id":"`+id+`","schedule":{"time":"2026-12-01T00:00:00Z"}}`)
			if status != 0 || !strings.HasPrefix(text, "unavailable: the scheduled message is being released") {
				t.Errorf("%s in between: %d %s", path, status, text)
			}
		}
		// Ann has another address by now; what was written counts.
		p := &profile.Profile{ExternalID: "ann"}
		p.SetAttributes(`{"email":"anna@example.com"}`, now.UnixMilli())
		w.apply(t, store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Partition: 1, Number: 1}, Profile: string(p.Append(nil))}}}})
		var sends []mail.StoredSend
		for _, d := range before {
			for n, to := range d.To {
				sends = append(sends, mail.StoredSend{Send: mail.Send{Message: d.ID, Number: n, Recipients: len(d.To), Priority: d.Priority, Class: d.Class, To: to, AcceptedMillis: now.UnixMilli()}})
			}
		}
		w.apply(t, store.Effect{Sends: sends})
		x.Submitter = w
		drafts := w.pass(t, x)
		if handed && len(drafts) != 0 {
			t.Errorf("handed in twice: %+v", drafts)
		}
		if !handed && (len(drafts) != 1 || drafts[0].To[0] != "ann@example.com") {
			t.Errorf("%+v", drafts)
		}
		if s, err := w.store.Schedule(t.Context(), id); err != nil || s.State != mail.ScheduleReleased || s.Request != "{}" {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// What cannot be read is left out of a list, and put aside when it is due. It keeps nobody
// waiting.
func TestScheduleThatCannotBeRead(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	bad := mail.Schedule{ID: sluice.NewUUID(now), State: mail.ScheduleWaiting, DueMillis: 1, Request: "{", CreatedMillis: 1, UpdatedMillis: 1}
	if err := w.store.AddSchedule(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if status, text := w.call(t, "/messages/scheduled_broadcasts?end_time=2026-11-22", ""); status != 200 || strings.Count(text, `"id":`) != 1 || !strings.Contains(text, id) {
		t.Errorf("%d %s", status, text)
	}
	clock.Move(time.Hour)
	if _, err := x.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("told: %v", err)
	}
	if drafts := w.pass(t, x); len(drafts) != 1 || drafts[0].ID != strings.ReplaceAll(id, "-", "") {
		t.Errorf("%+v", drafts)
	}
	if s, err := w.store.Schedule(t.Context(), bad.ID); err != nil || s.State != mail.ScheduleInDoubt {
		t.Errorf("%+v, %v", s, err)
	}
	if status, text := w.call(t, "/messages/schedule/delete", `{"schedule_id":"`+bad.ID+`"}`); status != 400 || !strings.Contains(text, "is in doubt") {
		t.Errorf("%d %s", status, text)
	}
}

// Of what was released it is said that it is over when that is known. Its mail may be on
// its way into the ledger, or under way, or cannot be stopped now.
func TestDeletingWhatIsReleased(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-22T09:00:00","in_local_time":true}`)
	clock.Move(9 * time.Hour)
	if drafts := w.pass(t, x); len(drafts) != 1 {
		t.Fatalf("%+v", drafts)
	}
	missing := sluice.Refuse(sluice.CodeNotFound, "there is no message")
	for _, c := range []struct {
		unstopped  error
		behind     bool
		left, open int
		status     int
		text       string
	}{
		{missing, true, 0, 0, 0, "unavailable: the scheduled message is being released"},
		{missing, false, 0, 0, 400, string(overAlready)},
		{sluice.Refuse(sluice.CodeUnavailable, "2 sends cannot be cancelled"), false, 0, 0, 0, "unavailable: 2 sends cannot be cancelled"},
		{errors.New("redis: refused"), false, 0, 0, 0, "it is not known what of the mail was stopped"},
		{nil, false, 0, 1, 0, "unavailable: the mail of the scheduled message is on its way"},
		{nil, false, 0, 0, 400, string(overAlready)},
		{nil, false, 1, 1, 201, "some of the mail is on its way"},
	} {
		w.unstopped, w.behind, w.left, w.open = c.unstopped, c.behind, c.left, c.open
		status, text := w.call(t, "/messages/schedule/delete", `{"schedule_id":"`+id+`"}`)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%v, %v, %d, %d: %d %s, want %d %s", c.unstopped, c.behind, c.left, c.open, status, text, c.status, c.text)
		}
	}
}

// measured is a store that looks how much memory is in use, behind each schedule that it
// reads.
type measured struct {
	*sqlstore.Store
	most uint64
}

func (m *measured) EachSchedule(ctx context.Context, state mail.ScheduleState, after mail.SchedulePlace, before int64, limit int, f func(*mail.Schedule) bool) error {
	return m.Store.EachSchedule(ctx, state, after, before, limit, func(s *mail.Schedule) bool {
		more := f(s)
		m.most = max(m.most, memoryInUse())
		return more
	})
}

func memoryInUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// A list of schedules has one mail in memory at a time, and of each what it shows.
func TestListOfLargeSchedules(t *testing.T) {
	w := newCore(t)
	const many, letters = 24, 250_000
	s := schedule.Request{Time: "2026-11-22T00:00:00Z"}
	s.Mailing.Email.Mail.Subject, s.Mailing.Email.Mail.HTML = strings.Repeat("é", letters), strings.Repeat("x", 4*letters)
	text, err := bounded(&s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(many) {
		row := mail.Schedule{ID: sluice.NewUUID(now), State: mail.ScheduleWaiting, DueMillis: now.UnixMilli() + i, Request: text, CreatedMillis: 1, UpdatedMillis: 1}
		if err := w.store.AddSchedule(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	m := &measured{Store: w.store}
	before := memoryInUse()
	got, err := listScheduled(t.Context(), &Request{Query: url.Values{"end_time": {"2026-11-23"}}, Now: now, Stores: Stores{Schedules: m}})
	if err != nil || strings.Count(string(got.Body), `"name":"`+strings.Repeat("é", maxNameRunes)+`"`) != many {
		t.Fatalf("%v %.300s", err, got.Body)
	}
	if most := before + many*uint64(len(text))/6; m.most == 0 || m.most > most {
		t.Errorf("%d bytes in use, %d before the call: want at most %d", m.most, before, most)
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	w := newMailing(t)
	users := `"external_user_ids":["ann"],` + anEmail
	id := w.create(t, `{"time":"2026-11-22T00:00:00Z"}`)
	for _, x := range [][3]string{
		{"create", `{` + users + `}`, "'schedule' must be an object"},
		{"create", `{"schedule":{},` + users + `}`, "'schedule' must be an object"},
		{"create", `{"schedule":{"time":"soon"},` + users + `}`, BadRequest},
		{"create", `{"schedule":{"time":"2026-11-21T10:20:30Z"},` + users + `}`, BadRequest}, // past
		{"create", `{"schedule":{"time":"2026-11-20T22:00:00","in_local_time":true},` + users + `}`, BadRequest},
		{"create", `{"schedule":{"time":"2026-11-22T22:00:00Z","in_local_time":true},` + users + `}`, "must name no zone"},
		{"create", `{"schedule":{"time":"2026-11-22T22:00:00","at_optimal_time":true},` + users + `}`, "'at_optimal_time' is not possible here"},
		{"create", `{"schedule":{"time":"2027-02-20T00:00:00Z"},` + users + `}`, "within 90 days"},
		{"create", `{"schedule":{"time":"2026-11-22T00:00:00Z"},` + anEmail + `}`, "No Recipients"},
		{"create", `{"schedule":{"time":"2026-11-22T00:00:00Z"},"external_user_ids":[7.5],` + anEmail + `}`, "external_user_ids[0]"},
		{"create", `{"schedule":{"time":"2026-11-22T00:00:00Z"},"external_user_ids":["ann"]}`, "No message to send"},
		{"update", `{"schedule_id":"` + id + `"}`, "One of 'schedule' and 'messages' is required"},
		{"update", `{"schedule_id":"` + id + `","schedule":{"time":"soon"}}`, BadRequest},
		{"update", `{"schedule_id":"` + id + `","messages":{"sms":{}}}`, "No message to send"},
		{"update", `{"schedule_id":"019aa5c0-7a00-7abc-8def-0123456789ab","schedule":{"time":"2026-11-22T00:00:00Z"}}`, "Invalid Schedule ID"},
		{"update", `{"schedule":{"time":"2026-11-22T00:00:00Z"}}`, "Invalid Schedule ID"},
		{"delete", `{}`, "Invalid Schedule ID"},
		{"delete", `{"schedule_id":7}`, "Invalid Schedule ID"},
		{"delete", `[]`, BadRequest},
	} {
		if status, text := w.call(t, "/messages/schedule/"+x[0], x[1]); status != 400 || !strings.Contains(text, x[2]) {
			t.Errorf("%s %.150s: %d %s, want %s", x[0], x[1], status, text, x[2])
		}
	}
	// PostgreSQL cannot be asked for this one: no store is, of which there is none here.
	unstorable := &Request{Body: `{"schedule_id":"\u0000` + strings.Repeat("a", 35) + `"}`, Now: now}
	if got, err := deleteSchedule(t.Context(), unstorable); err != nil || got.Status != 400 || !strings.Contains(string(got.Body), "Invalid Schedule ID") {
		t.Errorf("%d %s, %v", got.Status, got.Body, err)
	}
	for _, query := range []string{"", "?end_time=soon"} {
		if status, text := w.call(t, "/messages/scheduled_broadcasts"+query, ""); status != 400 || !strings.Contains(text, "'end_time' is required") {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// If mail is not accepted from a sender's domain, that is said when the mail is
// scheduled or changed. It is not found out when it is time.
func TestSchedulesOfRefusedSenders(t *testing.T) {
	w := newMailing(t)
	id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	w.refused = "bad@example.com"
	const mail = `"messages":{"email":{"app_id":"b","from":"Shop <bad@example.com>","subject":"New","body":"b"}}`
	for path, body := range map[string]string{
		"create": `{"external_user_ids":["ann"],"schedule":{"time":"2026-11-21T11:00:00Z"},` + mail + `}`,
		"update": `{"schedule_id":"` + id + `",` + mail + `}`,
	} {
		if status, text := w.call(t, "/messages/schedule/"+path, body); status != 0 || !strings.Contains(text, "mail from bad@example.com is not accepted") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	row, err := w.store.Schedule(t.Context(), id)
	if err != nil || strings.Contains(row.Request, "bad@example.com") {
		t.Errorf("%+v, %v", row, err)
	}
	if status, text := w.call(t, "/messages/schedule/update", `{"schedule_id":"`+id+`","schedule":{"time":"2026-11-22T11:00:00Z"}}`); status != 201 {
		t.Errorf("%d %s", status, text)
	}
}

// A process whose clock is a week ahead of Redis's releases no schedule. It
// drops none that is over for less long than it is kept.
func TestAWrongClockReleasesNoSchedule(t *testing.T) {
	w := newMailing(t)
	x, own := w.releaser()
	w.create(t, `{"time":"2026-11-21T12:00:00+01:00"}`)
	clock := flow.NewClock(own)
	clock.Heard(now, time.Now(), time.Now())
	x.Clock = clock
	own.Move(7 * 24 * time.Hour)
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("a week too early: %+v", drafts)
	}
	own.Move(-7*24*time.Hour - time.Minute)
	clock.Heard(now.Add(40*time.Minute), time.Now(), time.Now()) // Redis's is ahead
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("before its time by the process's own clock: %+v", drafts)
	}
	own.Move(41 * time.Minute)
	clock.Heard(now.Add(40*time.Minute), time.Now(), time.Now())
	if drafts := w.pass(t, x); len(drafts) == 0 {
		t.Error("it is time, and nothing goes")
	}
}
