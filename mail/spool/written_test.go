package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/tables"
	"sluice/user"
)

// newMailer returns a mailer on a database with users. ann has opted in, bob
// never said anything, cid has unsubscribed, and one has no external id.
func newMailer(t testing.TB) (m *spool.Mailer, nameless user.ID) {
	t.Helper()
	db := tables.Open(t, sqlstore.Options{})
	u := &user.Changes{}
	for i, fields := range []string{
		`"external_id":"ann","fields":{"email":"ann@example.com","email_subscribe":"opted_in","first_name":"Ann"}`,
		`"external_id":"bob","fields":{"email":"bob@example.com","first_name":"Bob"}`,
		`"external_id":"cid","fields":{"email":"cid@example.com","email_subscribe":"unsubscribed","first_name":"Cid"}`,
		`"fields":{"email":"bob@example.com","first_name":"Another"},"custom":{"plan":"<gold>"}`,
	} {
		id := user.ID{Partition: 3, Number: int64(i + 1)}
		u.Put = append(u.Put, user.Row{ID: id, UpdatedMillis: 1, Profile: "{" + fields + "}"})
		_, address, _ := strings.Cut(fields, `"email":"`)
		address, _, _ = strings.Cut(address, `"`)
		u.AddAddress = append(u.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: address}, ID: id})
		if i < 3 {
			u.AddKeys = append(u.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: []string{"ann", "bob", "cid"}[i]}, ID: id})
		}
		nameless = id
	}
	p, err := db.Prepare(&store.Effect{Users: u})
	if err == nil {
		_, err = db.Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &spool.Mailer{Templates: template.NewCache(db, 0), Users: db, Clock: sluice.SystemClock{}}, nameless
}

// mailsTo are sends of one message to users.
func mailsTo(content string, users ...string) []spool.Mail {
	mails := make([]spool.Mail, len(users))
	for i, user := range users {
		mails[i] = spool.Mail{Content: []byte(content), Took: new([mail.Stages]time.Duration), Send: &mail.Send{
			Message: strings.Repeat("a", sluice.MessageIDBytes), Number: i, Recipients: len(users), Form: mail.ContentTemplate,
			From: "shop@example.com", To: user + "@example.com", User: user,
		}}
	}
	return mails
}

// What is known of a user is read in that user's own mailbox only. A caller
// that hands in mail may name any user and any address.
func TestNobodyElseReadsAProfile(t *testing.T) {
	m, nameless := newMailer(t)
	mail := &mail.TemplateVersion{Subject: "Hello {{${first_name}}}", HTML: `<p>{{custom_attribute.${plan}}}</p>`}
	content := template.Content{Mail: mail}
	for to, want := range map[string]string{"thief@example.com": "Hello\r\n", "ann@example.com": "Hello Ann\r\n", "ANN@Example.COM": "Hello Ann\r\n", "ann@example.com.evil.example": "Hello\r\n"} {
		mails := mailsTo(string(content.Append(nil)), "ann")
		mails[0].Send.To = to
		if m.Make(t.Context(), mails); mails[0].Err != nil || !bytes.Contains(mails[0].Envelope.Content, []byte("Subject: "+want)) {
			t.Errorf("a mail for ann to %s: %v\n%s", to, mails[0].Err, mails[0].Envelope.Content)
		}
	}
	mails := mailsTo(string(content.Append(nil)), nameless.String(), "cid")
	mails[0].Send.To, mails[1].Send.To = "thief@example.com", "thief@example.com"
	if m.Make(t.Context(), mails); bytes.Contains(mails[0].Envelope.Content, []byte("gold")) || bytes.Contains(mails[1].Envelope.Content, []byte("Cid")) {
		t.Errorf("%s\n%s", mails[0].Envelope.Content, mails[1].Envelope.Content)
	}
}

// A mail without a stored template is made for each recipient as one with a
// template is, by what is known of the user. A user without an external id is
// found by the internal id. Users outside the audience get none.
func TestMailsOfTheirOwn(t *testing.T) {
	m, nameless := newMailer(t)
	mail := &mail.TemplateVersion{
		Subject: "Hello {{${first_name}}}", HTML: `<p>{{custom_attribute.${plan}}}</p>`, From: "Shop {{ n }} <shop@example.com>",
		Headers: []mail.TemplateHeader{{Name: "X-Name", Value: "{{${first_name}}}"}, {Name: "Reply-To", Value: "Help <help@example.com>"}},
	}
	for state, want := range map[string]string{"": "ann bob cid " + nameless.String(), "subscribed": "ann bob " + nameless.String(), "opted_in": "ann"} {
		content := template.Content{Mail: mail, State: state, Variables: `{"n":7}`}
		mails := mailsTo(string(content.Append(nil)), "ann", "bob", "cid", nameless.String(), "gone")
		mails[3].Send.To = "bob@example.com"
		m.Make(t.Context(), mails)
		var made []string
		for i := range mails {
			switch x := &mails[i]; {
			case errors.Is(x.Err, spool.ErrUnwanted):
			case x.Err != nil:
				t.Errorf("%s: %v", x.Send.User, x.Err)
			case x.Send.User != "gone":
				made = append(made, x.Send.User)
			case state != "":
				t.Errorf("%q: nobody knows whether the recipient wants it", state)
			}
		}
		if fmt.Sprint(strings.Join(made, " ")) != want {
			t.Errorf("%q: made for %v, want %s", state, made, want)
		}
		if state != "" {
			continue
		}
		for i, texts := range map[int][]string{
			0: {"Subject: Hello Ann\r\n", "From: Shop 7 <shop@example.com>\r\n", "Reply-To: Help <help@example.com>\r\n", "X-Name: Ann\r\n"},
			3: {"Subject: Hello Another\r\n", "&lt;gold&gt;"},
		} {
			for _, text := range texts {
				if !bytes.Contains(mails[i].Envelope.Content, []byte(text)) {
					t.Errorf("mail to %s has no %q:\n%s", mails[i].Send.User, text, mails[i].Envelope.Content)
				}
			}
		}
	}
}

// BenchmarkOwnMails makes windows of mails of 10 KB that are no stored
// templates: profiles read, rendered, built.
func BenchmarkOwnMails(b *testing.B) {
	for _, many := range []int{1, 50} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			m, _ := newMailer(b)
			mail := &mail.TemplateVersion{Subject: "Hello {{${first_name}}}", HTML: strings.Repeat("<p>Dear {{${first_name}}}, \"this\" is a line of some length, as mails have it, and another.</p>\n", 100)}
			content := template.Content{Mail: mail, State: "subscribed"}
			users := make([]string, many)
			for i := range users {
				users[i] = []string{"ann", "bob"}[i%2]
			}
			text := content.Append(nil)
			mails := mailsTo(string(text), users...)
			b.ReportAllocs()
			for b.Loop() {
				for i := range mails {
					mails[i].Content = text
				}
				m.Make(b.Context(), mails)
				for i := range mails {
					if mails[i].Err != nil {
						b.Fatal(mails[i].Err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/mail")
		})
	}
}

// Marketing mail of a journey waits if its person is missing: a database that went back
// gets the person again. Who is there and wants none gets none.
func TestMailOfAJourneyWaitsForItsPerson(t *testing.T) {
	m, _ := newMailer(t)
	content := template.Content{Mail: &mail.TemplateVersion{Subject: "Hello", Text: "hello"}, State: "subscribed"}
	mails := mailsTo(string(content.Append(nil)), "gone", "cid", "ann", "ann", "gone")
	for i := range mails[:4] {
		mails[i].Send.Journey, mails[i].Send.Step = "welcome", "hello"
	}
	mails[3].Send.To = "moved@example.com"
	m.Make(t.Context(), mails)
	for i, want := range []error{spool.ErrNotNow, spool.ErrUnwanted, nil, spool.ErrUnwanted, spool.ErrUnwanted} {
		if !errors.Is(mails[i].Err, want) {
			t.Errorf("mail %d, to %s: %v, want %v", i, mails[i].Send.To, mails[i].Err, want)
		}
	}
}
