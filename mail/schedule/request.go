// Package schedule keeps mail that was asked for a time to come: what is mailed, to which users,
// and the release of it when it is time.
package schedule

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sluice/lib/timetext"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/user"
)

// Email is a mail in the language of templates, and what is kept with it.
type Email struct {
	Mail      mail.TemplateVersion `json:"mail"`
	Sender    string               `json:"sender"` // of the envelope
	App       string               `json:"app"`
	Variation string               `json:"variation,omitempty"`
	Extras    string               `json:"extras,omitempty"` // a JSON object
}

// Mailing is a mail for some users.
type Mailing struct {
	Email    Email  `json:"email"`
	State    string `json:"state,omitempty"` // profile.IsAudience; empty: for all
	Campaign string `json:"campaign,omitempty"`
	Send     string `json:"send,omitempty"`
}

// Metadata is what is kept with each send of a mailing: what its sender calls it. It is
// empty if there is nothing.
func (m *Mailing) Metadata() string {
	var all []string
	add := func(name, raw string) {
		if raw != "" {
			all = append(all, `"`+name+`":`+raw)
		}
	}
	text := func(name, text string) {
		if text != "" {
			raw, _ := json.Marshal(text) // a text always can be
			add(name, string(raw))
		}
	}
	text("campaign_id", m.Campaign)
	text("send_id", m.Send)
	text("message_variation_id", m.Email.Variation)
	add("extras", m.Email.Extras)
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Draft is the message of a mailing, to some of those for whom it is. A mailing that may
// go to unsubscribed users is not advertising: so mail for all is transactional.
func (m *Mailing) Draft(id string, to []Recipient) mail.Draft {
	content := template.Content{Mail: &m.Email.Mail, State: m.State}
	d := mail.Draft{
		ID: id, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentTemplate, Content: content.Append(nil),
		From: m.Email.Sender, App: m.Email.App, Metadata: m.Metadata(), Partly: true,
	}
	if m.State == "" {
		d.Class = mail.ClassTransactional
	}
	for _, x := range to {
		d.To, d.Users = append(d.To, x.Address), append(d.Users, x.Name)
	}
	return d
}

// Request is the request of a schedule: a mailing, when, and once it is being released,
// who gets it.
type Request struct {
	Mailing Mailing    `json:"mailing"`
	Users   []user.Key `json:"users"`
	Time    string     `json:"time"`            // as it was sent
	Local   bool       `json:"local,omitempty"` // in each user's own zone

	Frozen []frozen `json:"frozen,omitempty"`
}

// frozen is somebody who gets the mail.
type frozen struct {
	User    string `json:"user"`
	Address string `json:"address"`
	Due     int64  `json:"due"`
}

// Over is the request of a schedule that is over: of those who got the mail the ledger
// knows, and forgets who is erased.
const Over = "{}"

// Text is what is stored.
func (r *Request) Text() (string, error) {
	b, err := json.Marshal(r)
	return string(b), err
}

// Parse reads what is stored.
func Parse(text string) (*Request, error) {
	r := &Request{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("read the request of a schedule: %w", err)
	}
	return r, nil
}

// DueIn is when it is due for somebody in a zone.
func (r *Request) DueIn(zone *time.Location) (int64, error) {
	if !r.Local {
		zone = time.UTC
	}
	return timetext.ParseIn(r.Time, zone)
}
