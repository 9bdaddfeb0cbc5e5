package braze

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/user/profile"
)

// newMailing returns a core with users. ann and bob have ids, cid has an alias
// alone, dan has no address, and eve has the address of ann.
func newMailing(t testing.TB) *written {
	t.Helper()
	w := newCore(t)
	number := int64(0)
	add := func(p *profile.Profile, fields string) {
		number++
		p.SetAttributes(fields, now.UnixMilli())
		w.put(t, number, p, now.UnixMilli())
	}
	add(&profile.Profile{ExternalID: "ann"}, `{"email":"ann@example.com","first_name":"Ann","email_subscribe":"opted_in"}`)
	add(&profile.Profile{ExternalID: "bob"}, `{"email":"bob@bücher.example","time_zone":"Asia/Tokyo"}`)
	add(&profile.Profile{Aliases: []profile.Alias{{Label: "cookie", Name: "c"}}}, `{"email":"cid@example.com"}`)
	add(&profile.Profile{ExternalID: "dan"}, `{"first_name":"Dan"}`)
	add(&profile.Profile{ExternalID: "eve"}, `{"email":"ann@example.com"}`)
	return w
}

// handed returns what was handed in since it was last asked.
func (w *written) handed(t *testing.T) (drafts []mail.Draft, contents []template.Content) {
	t.Helper()
	for _, d := range w.drafts {
		c, err := template.ParseContent(string(d.Content))
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, c)
	}
	drafts, w.drafts = w.drafts, nil
	return drafts, contents
}

const anEmail = `"messages":{"email":{"app_id":"shop","from":"Shop <shop@example.com>","subject":"Hello {{${first_name}}}","body":"<p>{{custom_attribute.${plan}}}</p>"}}`

// dispatched reads a reply to a call that sends mail.
func dispatched(t *testing.T, text string) (id string, errs []string) {
	t.Helper()
	var b sentBody
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Message != success || !sluice.ValidMessageID(b.DispatchID) {
		t.Fatalf("%s: %v", text, err)
	}
	return b.DispatchID, b.Errors
}

// Mail goes to those who can be mailed; the others are named, with where they
// stand in the call and why.
func TestSendMessages(t *testing.T) {
	w := newMailing(t)
	status, text := w.call(t, "/messages/send", `{"external_user_ids":["ann","none","bob","dan","eve",7.5,"ann"],"user_aliases":[{"alias_name":"c","alias_label":"cookie"},{"alias_name":"x"}],
		"send_id":"s-1","campaign_id":"c-1","override_frequency_capping":true,"unknown":{"a":1},
		"messages":{"sms":{"body":"x"},"email":{"app_id":"shop","from":"\"Shop, Ltd\" <shop@example.com>","reply_to":"help@example.com","subject":"Hello {{${first_name}}}","preheader":"p","body":"<p>\"{{custom_attribute.${plan}}}\"</p>",
		"plaintext_body":"t","message_variation_id":"v-1","extras":{"k":"v"},"headers":{"X-Ref":"{{${user_id}}}"},"should_inline_css":false,"attachments":[],"amp_body":"x"}}}`)
	id, errs := dispatched(t, text)
	want := []string{
		"external_user_ids[5]: The value provided for the 'external_id' field is not valid: want a text, or a whole number of 64 bits.",
		"user_aliases[1]: The value provided for the 'alias_label' field is not valid: want a text.",
		"messages.sms: only email is sent here",
		"messages.email.amp_body: is not known here, and was passed over",
		"external_user_ids[1]: there is no such user",
		"external_user_ids[3]: the user has no email address that can be mailed",
		"external_user_ids[4]: another user of this call has the same email address, and gets the mail",
	}
	if status != 201 || !slices.Equal(errs, want) || !strings.Contains(text, `"send_id":"s-1"`) {
		t.Errorf("%d %s\n%s\nwant\n%s", status, text, strings.Join(errs, "\n"), strings.Join(want, "\n"))
	}
	drafts, contents := w.handed(t)
	if len(drafts) != 1 {
		t.Fatalf("%d messages", len(drafts))
	}
	d, c := drafts[0], contents[0]
	if d.ID != id || fmt.Sprint(d.To) != "[ann@example.com bob@xn--bcher-kva.example cid@example.com]" || d.Users[0] != "ann" || d.Users[1] != "bob" || len(d.Users[2]) != 24 {
		t.Errorf("%s: to %v, users %v", d.ID, d.To, d.Users)
	}
	if d.Class != mail.ClassMarketing || d.Priority != mail.PriorityNormal || d.From != "shop@example.com" || d.App != "shop" || c.State != subscribed ||
		d.Metadata != `{"campaign_id":"c-1","send_id":"s-1","message_variation_id":"v-1","extras":{"k":"v"}}` {
		t.Errorf("%+v %+v", d, c)
	}
	m := c.Mail
	if m.Subject != "Hello {{${first_name}}}" || m.HTML != `<p>"{{custom_attribute.${plan}}}"</p>` || m.Text != "t" || m.Preheader != "p" ||
		fmt.Sprint(m.Headers) != "[{X-Ref {{${user_id}}}} {Reply-To help@example.com}]" {
		t.Errorf("mail: %+v", m)
	}
}

// Who may be mailed is said with the call, and comes with the mail: it is asked
// when the mail is made.
func TestSubscriptionStates(t *testing.T) {
	w := newMailing(t)
	for state, want := range map[string]struct {
		class mail.Class
		state string
	}{"": {mail.ClassMarketing, "subscribed"}, "subscribed": {mail.ClassMarketing, "subscribed"},
		"opted_in": {mail.ClassMarketing, "opted_in"}, "all": {mail.ClassTransactional, ""}} {
		given := fmt.Sprintf(`"recipient_subscription_state":%q,`, state)
		if state == "" {
			given = ""
		}
		if status, text := w.call(t, "/messages/send", `{"external_user_ids":"ann",`+given+anEmail+`}`); status != 201 || strings.Contains(text, "errors") {
			t.Fatalf("%s: %d %s", state, status, text)
		}
		drafts, contents := w.handed(t)
		if drafts[0].Class != want.class || contents[0].State != want.state {
			t.Errorf("%q: class %s, state %q", state, drafts[0].Class, contents[0].State)
		}
	}
}

// What is beside a template replaces what the template says.
func TestEmailTemplates(t *testing.T) {
	w := newMailing(t)
	err := w.store.AddTemplate(t.Context(), mail.Template{ID: "welcome", Name: "Welcome"}, mail.TemplateVersion{Subject: "Old", HTML: "<p>old</p>", Text: "old", Strict: true,
		Class: mail.ClassMarketing, Headers: []mail.TemplateHeader{{Name: "Reply-To", Value: "old@example.com"}, {Name: "X-Old", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := w.call(t, "/messages/send", `{"external_user_ids":["ann"],"messages":{"email":{"app_id":"a","from":"a@example.com","email_template_id":"welcome","subject":"New","reply_to":"NO_REPLY_TO","headers":{"x-old":"2"}}}}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	_, contents := w.handed(t)
	m := contents[0].Mail
	if m.Subject != "New" || m.HTML != "<p>old</p>" || m.Text != "old" || !m.Strict || m.From != "a@example.com" || fmt.Sprint(m.Headers) != "[{x-old 2}]" {
		t.Errorf("%+v", m)
	}
}

// What cannot be done is refused, and says why; nothing is handed in.
func TestSendsThatAreRefused(t *testing.T) {
	w := newMailing(t)
	email := func(more string) string {
		return `{"external_user_ids":["ann"],"messages":{"email":{"app_id":"a","from":"a@example.com","subject":"s","body":"b"` + more + `}}}`
	}
	fifty := strings.TrimSuffix(strings.Repeat(`"ann",`, 50), ",")
	for body, want := range map[string]string{
		`{`:                 `{"message":"Bad Request"}`,
		`{` + anEmail + `}`: `{"message":"No Recipients"}`,
		`{"external_user_ids":[],` + anEmail + `}`:                                                               `{"message":"No Recipients"}`,
		`{"external_user_ids":["none"],` + anEmail + `}`:                                                         `{"message":"No Recipients","errors":["external_user_ids[0]: there is no such user"]}`,
		`{"external_user_ids":["ann"]}`:                                                                          `{"message":"No message to send"}`,
		`{"external_user_ids":["ann"],"messages":{"apple_push":{}}}`:                                             `{"message":"No message to send","errors":["messages.apple_push: only email is sent here"]}`,
		`{"external_user_ids":[` + fifty + `,"bob"],` + anEmail + `}`:                                            `{"message":"The max number of external_ids and aliases per request was exceeded"}`,
		`{"external_user_ids":[` + fifty + `],"user_aliases":[{}],` + anEmail + `}`:                              `{"message":"The max number of external_ids and aliases per request was exceeded"}`,
		`{"segment_id":"s",` + anEmail + `}`:                                                                     "'segment_id', 'audience' and 'broadcast' are not possible here",
		`{"broadcast":true,"external_user_ids":["ann"],` + anEmail + `}`:                                         "'segment_id', 'audience' and 'broadcast' are not possible here",
		`{"audience":{"AND":[]},"external_user_ids":["ann"],` + anEmail + `}`:                                    "'segment_id', 'audience' and 'broadcast' are not possible here",
		`{"recipients":[{"external_user_id":"ann"}],` + anEmail + `}`:                                            "'recipients' are not possible here",
		`{"external_user_ids":["ann"],"campaign_id":"c",` + anEmail + `}`:                                        `{"message":"Message Variant Unspecified"}`,
		`{"external_user_ids":["ann"],"recipient_subscription_state":"x",` + anEmail + `}`:                       "want opted_in, subscribed or all",
		`{"external_user_ids":["ann"],"override_frequency_capping":1,` + anEmail + `}`:                           "'override_frequency_capping'",
		`{"external_user_ids":["ann"],"messages":{"email":[]}}`:                                                  "messages.email: want an object",
		email(`,"bcc":"b@example.com"`):                                                                          "messages.email.bcc: blind copies",
		email(`,"attachments":[{"file_name":"a","url":"http://127.0.0.1/"}]`):                                    "messages.email.attachments: files are not fetched",
		email(`,"reply_to":"nobody"`):                                                                            "messages.email.reply_to: ",
		email(`,"reply_to":"{{x}}@example.com"`):                                                                 "the same for everybody",
		email(`,"from":"a@example.com, b@example.com"`):                                                          "messages.email.from: ",
		email(`,"from":"a@example.com\r\nX: 1"`):                                                                 "messages.email.from: ",
		email(`,"from":"{{x}}@example.com"`):                                                                     "messages.email.from: want an address that is the same for everybody",
		email(`,"app_id":""`):                                                                                    "messages.email.app_id: is required",
		email(`,"app_id":7`):                                                                                     "messages.email.app_id: want a text, got a number",
		email(`,"subject":""`):                                                                                   "messages.email: subject: there is none",
		email(`,"body":"{{ x | uppercase }}"`):                                                                   `messages.email: body, line 1: there is no filter`,
		email(`,"plaintext_body":"{{canvas.${name}}}"`):                                                          "messages.email: canvas.${name} is known in mails of journeys alone; give it a default: {{canvas.${name} | default: ",
		email(`,"plaintext_body":"{% if %}"`):                                                                    "messages.email: plaintext_body, line 1: ",
		email(`,"body":"{{${frist_name}}}"`):                                                                     "is no standard attribute",
		email(`,"headers":{"X-A\r\nBcc: b@example.com":"1"}`):                                                    "messages.email.headers: ",
		email(`,"headers":{"Bcc":"b@example.com"}`):                                                              "messages.email.headers: ",
		email(`,"headers":{"Reply-To":"b@example.com"}`):                                                         "reply_to says Reply-To",
		email(`,"headers":{"X-A":1}`):                                                                            `messages.email.headers: "X-A" is a number`,
		email(`,"extras":"x"`):                                                                                   "messages.email.extras: want an object",
		email(`,"extras":{"k":"` + strings.Repeat("x", 3000) + `"}`):                                             "messages.email.extras: with the ids",
		email(`,"email_template_id":"none"`):                                                                     "messages.email.email_template_id: there is no template",
		email(`,"should_inline_css":"yes"`):                                                                      "should_inline_css",
		`{"external_user_ids":["ann"],"messages":{"email":{"app_id":"a","from":"a@example.com","subject":"s"}}}`: "messages.email.body: is required",
		`{"external_user_ids":["ann"],"messages":{"email":{"app_id":"a","subject":"s","body":"b"}}}`:             "messages.email.from: is required",
	} {
		status, text := w.call(t, "/messages/send", body)
		if status != 400 || !strings.Contains(text, strings.ReplaceAll(want, `"X-A"`, `\"X-A\"`)) {
			t.Errorf("%.200s: %d %s, want %s", body, status, text, want)
		}
	}
	if drafts, _ := w.handed(t); len(drafts) != 0 {
		t.Errorf("handed in: %+v", drafts)
	}
	if status, _ := w.call(t, "/messages/send", `{"external_user_ids":[`+fifty+`],`+anEmail+`}`); status != 201 {
		t.Errorf("fifty: %d", status)
	}
	if drafts, _ := w.handed(t); len(drafts) != 1 || len(drafts[0].To) != 1 {
		t.Errorf("one user, fifty times: %+v", drafts)
	}
}

// Whatever stands in a field, the call is answered: it is done, or refused.
func TestOddValues(t *testing.T) {
	w := newCampaigns(t)
	values := []string{"null", "true", "0", "1e400", `""`, `"x"`, `"\u0000"`, `"\ud800"`, `"{{"`, `"{% if %}"`, `"\r\nBcc: x@example.com"`, "[]", "[[]]", "[null]", `["ann"]`, "{}", `{"a":{"b":[1,null]}}`,
		`{"alias_name":"c","alias_label":"cookie"}`, `"2026-12-01T00:00:00"`, strings.Repeat("[", 60) + strings.Repeat("]", 60), `"` + strings.Repeat("ä", 40_000) + `"`}
	put := func(fields []string, format string, rest map[string]string) (all []string) {
		for _, field := range fields {
			for _, value := range values {
				object := ""
				for name, raw := range rest {
					if name != field {
						object += fmt.Sprintf("%q:%s,", name, raw)
					}
				}
				all = append(all, fmt.Sprintf(format, object+fmt.Sprintf("%q:%s", field, value)))
			}
		}
		return all
	}
	call := map[string]string{"external_user_ids": `["ann"]`, "messages": strings.TrimPrefix(anEmail, `"messages":`), "schedule": `{"time":"2026-12-01T00:00:00Z"}`}
	email := map[string]string{"app_id": `"a"`, "from": `"a@example.com"`, "subject": `"s"`, "body": `"b"`}
	bodies := append(put([]string{"external_user_ids", "user_aliases", "segment_id", "broadcast", "campaign_id", "send_id", "recipient_subscription_state", "messages", "schedule", "schedule_id", "override_frequency_capping"}, "{%s}", call),
		put(emailMembers, `{"external_user_ids":["ann"],"schedule":{"time":"2026-12-01T00:00:00Z"},"messages":{"email":{%s}}}`, email)...)
	bodies = append(bodies, put([]string{"time", "in_local_time", "at_optimal_time"}, `{"external_user_ids":["ann"],`+anEmail+`,"schedule":{%s}}`, map[string]string{"time": `"2026-12-01T00:00:00Z"`})...)
	bodies = append(bodies, put([]string{"external_send_id", "trigger_properties", "recipient"}, "{%s}", map[string]string{"recipient": `{"external_user_id":"ann"}`})...)
	bodies = append(bodies, put([]string{"external_user_id", "user_alias", "attributes"}, `{"recipient":{%s}}`, map[string]string{"external_user_id": `"ann"`})...)
	done := make(map[int]int)
	for _, body := range bodies {
		for _, path := range []string{"/messages/send", "/messages/schedule/create", "/messages/schedule/update", "/messages/schedule/delete", receipt} {
			status, text := w.call(t, path, body)
			if status != 201 && status != 400 {
				t.Errorf("%s %.200s: %d %s", path, body, status, text)
			}
			done[status]++
		}
		w.handed(t)
	}
	if done[201] < 100 || done[400] < 100 {
		t.Errorf("%v", done)
	}
}

// BenchmarkSend takes in calls with a mail of 10 KB to 50 users: cut, looked up
// in SQLite, the mail compiled, a message made.
func BenchmarkSend(b *testing.B) {
	w := newMailing(b)
	var users []string
	for i := range 50 {
		p := &profile.Profile{ExternalID: fmt.Sprintf("user-%d", i)}
		p.SetAttributes(fmt.Sprintf(`{"email":"user-%d@example.com","first_name":"Ann"}`, i), now.UnixMilli())
		w.put(b, int64(100+i), p, now.UnixMilli())
		users = append(users, p.ExternalID)
	}
	named, err := json.Marshal(users)
	if err != nil {
		b.Fatal(err)
	}
	body := `{"external_user_ids":` + string(named) + `,"messages":{"email":{"app_id":"a","from":"a@example.com","subject":"s","body":"` +
		strings.Repeat("<p>Dear {{${first_name}}}, this is a line of some length, as mails have it, and another one.</p>", 100) + `"}}}`
	r := &Request{Body: body, Now: now, Core: w, Stores: w.stores()}
	b.ReportAllocs()
	for b.Loop() {
		done, err := sendMessages(b.Context(), r)
		if err != nil || done.Status != 201 {
			b.Fatalf("%d %s, %v", done.Status, done.Body, err)
		}
		w.drafts = nil
	}
}
