package braze

import (
	"context"
	"errors"
	"net/http"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/user/profile"
)

// mailing is mail that a call asks for: what, and for whom.
type mailing struct {
	schedule.Mailing
	To []called
}

// Words of recipient_subscription_state.
const (
	audienceAll    = "all"
	audiencePreset = subscribed
)

const (
	errVariant   complaint = "Message Variant Unspecified"
	errUsersOnly complaint = "'segment_id', 'audience' and 'broadcast' are not possible here: name users in 'external_user_ids' or 'user_aliases'"
)

// sendForm is the members of a call that sends mail to users.
type sendForm struct {
	external, aliases, segment, audience, broadcast, recipients jsonscan.Value
	campaign, send, state, messages, schedule                   jsonscan.Value
	cappingOff, limitsOff                                       jsonscan.Value
}

// mailing reads such a call. Whatever cannot be done is said, in notes if the
// rest can.
func (r *Request) mailing(ctx context.Context, f *sendForm, n *notes) (*mailing, error) {
	if !(form{"external_user_ids": &f.external, "user_aliases": &f.aliases, "segment_id": &f.segment, "audience": &f.audience,
		"broadcast": &f.broadcast, "recipients": &f.recipients, "campaign_id": &f.campaign, "send_id": &f.send,
		"recipient_subscription_state": &f.state, "messages": &f.messages, "schedule": &f.schedule,
		"override_frequency_capping": &f.cappingOff, "override_messaging_limits": &f.limitsOff}).read(r.Body) {
		return nil, complaint(BadRequest)
	}
	broadcast, _, err := flag("broadcast", f.broadcast)
	if err == nil { // mail of this call is never capped
		_, _, err = flag("override_frequency_capping", f.cappingOff)
	}
	if err == nil {
		_, _, err = flag("override_messaging_limits", f.limitsOff)
	}
	switch {
	case err != nil:
		return nil, err
	case f.segment.Kind != jsonscan.None || f.audience.Kind != jsonscan.None || broadcast:
		return nil, errUsersOnly
	case f.recipients.Kind != jsonscan.None:
		return nil, complaint("'recipients' are not possible here: name users in 'external_user_ids' or 'user_aliases'")
	}
	m := &mailing{Mailing: schedule.Mailing{State: audiencePreset}}
	if m.To, err = named(f.external, f.aliases, n); err != nil {
		return nil, err
	}
	for field, to := range map[string]struct {
		text  *string
		value jsonscan.Value
	}{"campaign_id": {&m.Campaign, f.campaign}, "send_id": {&m.Send, f.send}, "recipient_subscription_state": {&m.State, f.state}} {
		if to.value.Kind == jsonscan.None {
			continue
		}
		if *to.text, err = name(field, to.value); err != nil {
			return nil, err
		}
	}
	if m.State == audienceAll {
		m.State = ""
	} else if !profile.IsAudience(m.State) {
		return nil, invalid("recipient_subscription_state", "opted_in, subscribed or all")
	}
	e, err := r.readMessages(ctx, f.messages, n)
	if err != nil {
		return nil, err
	}
	m.Email = *e
	return m, check(&m.Mailing)
}

// check says what is wrong with a mailing beside its parts.
func check(m *schedule.Mailing) error {
	if m.Campaign != "" && m.Email.Variation == "" {
		return errVariant
	}
	if n := len(m.Metadata()); n > mail.MaxMetadataBytes {
		return wrongEmail("extras", "with the ids of the call they have %d bytes, at most %d are possible", n, mail.MaxMetadataBytes)
	}
	return nil
}

// sentBody is the reply to a call that sends mail.
type sentBody struct {
	DispatchID string   `json:"dispatch_id"`
	ScheduleID string   `json:"schedule_id,omitempty"`
	SendID     string   `json:"send_id,omitempty"`
	Message    string   `json:"message"`
	Errors     []string `json:"errors,omitempty"`
}

// sendMessages is POST /messages/send.
func sendMessages(ctx context.Context, r *Request) (Reply, error) {
	var f sendForm
	var n notes
	m, err := r.mailing(ctx, &f, &n)
	if err != nil {
		return wrong(err, n)
	}
	to, err := r.recipients(ctx, m.To, &n)
	if err != nil {
		return Reply{}, err
	}
	if len(to) == 0 {
		return wrong(noRecipients, n)
	}
	d := m.Draft(sluice.NewMessageID(r.Now.UnixMilli()), to)
	ids, err := r.Core.Submit(ctx, "", []mail.Draft{d})
	if err != nil {
		return Reply{}, err
	}
	done := reply(http.StatusCreated, sentBody{DispatchID: ids[0], SendID: m.Send, Message: success, Errors: n})
	done.Accepted, done.Refused = len(to), len(n)
	return done, nil
}

// wrong answers what is wrong with a call: 400 if it is the client's fault.
func wrong(err error, n notes) (Reply, error) {
	_, said := errors.AsType[complaint](err)
	_, invalid := errors.AsType[*profile.FieldError](err)
	if !said && !invalid {
		return Reply{}, err
	}
	done, _ := refuse(err.Error(), n...)
	done.Refused = max(1, len(n))
	return done, nil
}
