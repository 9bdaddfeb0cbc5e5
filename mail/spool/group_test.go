package spool_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/user"
)

// The links of a mail of a subscription group, in its header and its text, are of that
// group. Who has left the group since the mail was accepted gets none; who has said
// nothing does.
func TestMailOfAGroup(t *testing.T) {
	content := template.Content{Mail: &mail.TemplateVersion{Subject: "s", Text: "leave: {{unsubscribe_url}}", Class: mail.ClassMarketing}, Group: "wöchentlich \"1\""}
	key, id := user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}, user.ID{Partition: 1, Number: 5}
	for groups, gets := range map[string]bool{`{}`: true, `{"wöchentlich \"1\"":["subscribed",1]}`: true, `{"wöchentlich \"1\"":["unsubscribed",1]}`: false, `{"other":["unsubscribed",1]}`: true} {
		users := asks(func(context.Context) (user.Answer, error) {
			return user.Answer{ByKey: map[user.Key][]user.ID{key: {id}}, Users: map[user.ID]user.Row{id: {ID: id, Profile: `{"fields":{"email":"ann@example.com"},"groups":` + groups + `}`}}}, nil
		})
		m := &spool.Mailer{Users: users, Links: groupLinks{}, Clock: sluice.SystemClock{}}
		mails := []spool.Mail{{Send: &mail.Send{Message: "m", Form: mail.ContentTemplate, Class: mail.ClassMarketing, Recipients: 1, From: "shop@example.com", To: "ann@example.com"},
			Content: content.Append(nil), Took: new([mail.Stages]time.Duration)}}
		m.Make(t.Context(), mails)
		if got := mails[0]; errors.Is(got.Err, spool.ErrUnwanted) == gets || gets && got.Err != nil {
			t.Errorf("%s: %v", groups, got.Err)
		} else if gets && (!bytes.Contains(got.Envelope.Content, []byte("List-Unsubscribe: <https://m.example.com/g>\r\n")) || !bytes.Contains(got.Envelope.Content, []byte("leave: https://m.example.com/g"))) {
			t.Errorf("%s:\n%s", groups, got.Envelope.Content)
		}
	}
}

// groupLinks are of one group.
type groupLinks struct{}

func (groupLinks) UnsubscribeURL(_ *mail.Send, group string) (string, error) {
	if group != "wöchentlich \"1\"" {
		return "", errors.New("another group: " + group)
	}
	return "https://m.example.com/g", nil
}
