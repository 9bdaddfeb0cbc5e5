package braze

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/mail/template"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// A transactional campaign is a stored template: its id is the campaign's, its
// class must be transactional, its sender the same for everybody.

// Messages of calls for campaigns that cannot be sent.
const (
	badCampaign      complaint = "campaign_id must be a string of the campaign api identifier"
	noCampaign       complaint = "Campaign does not exist"
	otherCampaign    complaint = "The campaign is not a transactional campaign. Only transactional campaigns may use this endpoint"
	archivedCampaign complaint = "The campaign is archived. Unarchive the campaign in order for trigger requests to take effect."
)

// Statuses of mail, and why some is aborted.
const (
	statusSent      = "sent"      // it is ours to send
	statusProcessed = "processed" // somebody else has taken it
	statusBounced   = "bounced"
	statusAborted   = "aborted"
	notEmailable    = "User not emailable"
)

// transactionalBody is the reply to a call, and what is known of its mail.
type transactionalBody struct {
	DispatchID string   `json:"dispatch_id"`
	Status     string   `json:"status"`
	Metadata   lifetime `json:"metadata"`
	Message    string   `json:"message"`
}

type lifetime struct {
	ExternalSendID string `json:"external_send_id,omitempty"`
	CampaignID     string `json:"campaign_api_id"`
	ReceivedAt     string `json:"received_at,omitempty"`
	EnqueuedAt     string `json:"enqueued_at,omitempty"`
	ProcessedAt    string `json:"processed_at,omitempty"`
	BouncedAt      string `json:"bounced_at,omitempty"`
	AbortedAt      string `json:"aborted_at,omitempty"`
	Reason         string `json:"reason,omitempty"`
}

// triggered is a call, read.
type triggered struct {
	campaign   *mail.TemplateVersion
	sender     string
	sendID     string // external_send_id
	properties string // a JSON object, or empty
	who        user.Key
	attributes *user.Update // nil: there are none
}

// sendTransactional is POST /transactional/v1/campaigns/{campaign_id}/send.
func sendTransactional(ctx context.Context, r *Request) (Reply, error) {
	t, err := r.triggered(ctx)
	if err != nil {
		return wrong(err, nil)
	}
	if t.attributes != nil {
		if err := r.applyAttributes(ctx, t); err != nil {
			return Reply{}, err
		}
	}
	var n notes
	to, err := r.recipients(ctx, []called{{t.who, "recipient", 0}}, &n)
	if err != nil {
		return Reply{}, t.behind(err)
	}
	b := transactionalBody{Status: statusSent, Message: success, Metadata: lifetime{ExternalSendID: t.sendID, CampaignID: t.campaign.Template}}
	known := true
	if len(to) == 0 {
		known, err = r.repeated(ctx, t, &b)
	} else {
		err = r.trigger(ctx, t, to[0], &b)
	}
	if err != nil {
		return Reply{}, t.behind(err)
	}
	if !known {
		b.DispatchID, b.Status = sluice.NewMessageID(r.Now.UnixMilli()), statusAborted
		b.Metadata.ReceivedAt = profile.TimeText(r.Now.UnixMilli())
		b.Metadata.AbortedAt, b.Metadata.Reason = b.Metadata.ReceivedAt, notEmailable
		done := reply(http.StatusCreated, b)
		done.Refused = 1
		return done, nil
	}
	done := reply(http.StatusCreated, b)
	done.Accepted = 1
	return done, nil
}

// errOtherAddress is for a repeat that names another address than the call before, whose
// mail is in no ledger: it is on its way there, or was never taken.
var errOtherAddress = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1,
	Message: "the mail of this external_send_id was for another address, and is not stored yet: send it again. If the answer stays this one, that mail was never taken: use another external_send_id"}

// handedIn tells of the mail of a call before that was asked for under a name. known is
// false if the ledger has none.
func (r *Request) handedIn(ctx context.Context, first time.Time, once string, b *transactionalBody) (known bool, err error) {
	b.DispatchID = sluice.NamedMessageID(first.UnixMilli(), once, 0)
	rows, err := r.Sends.MessageSends(ctx, b.DispatchID)
	if err != nil {
		return false, unread(err)
	}
	if len(rows) > 0 {
		b.tell(&rows[0])
	}
	return len(rows) > 0, nil
}

// repeated is handedIn for a call whose user cannot be mailed, and may have been by the
// call before.
func (r *Request) repeated(ctx context.Context, t *triggered, b *transactionalBody) (known bool, err error) {
	if t.sendID == "" {
		return false, nil
	}
	first, once, err := r.Core.Seen(ctx, transactionalName+t.sendID)
	if err != nil || first.IsZero() {
		return false, err
	}
	if known, err = r.handedIn(ctx, first, once, b); err == nil && !known {
		err = errOtherAddress
	}
	return known, err
}

// trigger hands the mail in, unless it was before.
func (r *Request) trigger(ctx context.Context, t *triggered, to schedule.Recipient, b *transactionalBody) error {
	first, once, same := r.Now, "", true
	b.DispatchID = sluice.NewMessageID(r.Now.UnixMilli())
	if t.sendID != "" {
		var err error
		if first, once, same, err = r.Core.Once(ctx, transactionalName+t.sendID, to.Address); err != nil {
			return err
		}
		if known, err := r.handedIn(ctx, first, once, b); known || err != nil {
			return err
		}
	}
	b.Metadata.ReceivedAt = profile.TimeText(first.UnixMilli())
	b.Metadata.EnqueuedAt = b.Metadata.ReceivedAt
	if !same { // for another address; whether that was taken, only the ledger says
		return errOtherAddress
	}
	content := template.Content{Template: t.campaign.Template, Version: t.campaign.Version, Variables: t.properties}
	metadata := members{b: []byte{'{'}}
	metadata.text("campaign_id", t.campaign.Template)
	metadata.text("external_send_id", t.sendID)
	_, err := r.Core.Submit(ctx, once, []mail.Draft{{
		ID: b.DispatchID, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentTemplate, Content: content.Append(nil),
		From: t.sender, To: []string{to.Address}, Users: []string{to.Name}, Metadata: string(append(metadata.b, '}')),
	}})
	return err
}

// transactionalName begins the names of transactional mail, attributesName those of the
// attributes that come with it.
const (
	transactionalName = "transactional "
	attributesName    = "transactional attributes "
)

// tell says what is known of a mail that was handed in before.
func (b *transactionalBody) tell(row *mail.SendRow) {
	m := &b.Metadata
	m.ReceivedAt = profile.TimeText(row.AcceptedMillis)
	m.EnqueuedAt = m.ReceivedAt
	at := profile.TimeText(row.UpdatedMillis)
	switch row.State {
	case mail.SendSent:
		b.Status, m.ProcessedAt = statusProcessed, at
	case mail.SendFailed:
		if row.Attempts > 0 && row.Reason == "" {
			b.Status, m.BouncedAt, m.Reason = statusBounced, at, row.Reply
			return
		}
		b.Status, m.AbortedAt, m.Reason = statusAborted, at, strings.Trim(row.Reason+" "+row.Reply, " ")
	case mail.SendSuppressed:
		b.Status, m.AbortedAt, m.Reason = statusAborted, at, row.Reason
	case mail.SendCancelled:
		b.Status, m.AbortedAt, m.Reason = statusAborted, at, "cancelled"
		if row.Reason == mail.ReasonAborted {
			m.Reason = row.Reply
		}
	}
}

// triggered reads a call.
func (r *Request) triggered(ctx context.Context) (*triggered, error) {
	var sendID, properties, recipient jsonscan.Value
	if !(form{"external_send_id": &sendID, "trigger_properties": &properties, "recipient": &recipient}).read(r.Body) {
		return nil, complaint(BadRequest)
	}
	t := &triggered{}
	if err := r.campaign(ctx, t); err != nil {
		return nil, err
	}
	if sendID.Kind != jsonscan.None {
		t.sendID = strings.Clone(sendID.Text())
		if sendID.Kind != jsonscan.String || !sendIDFits(t.sendID) {
			return nil, invalid("external_send_id", "1 to 200 letters, digits and - _ + / =")
		}
	}
	if properties.Kind != jsonscan.None {
		if properties.Kind != jsonscan.Object || len(properties.Raw) > template.MaxVariablesBytes {
			return nil, invalid("trigger_properties", "an object of at most 256 KiB")
		}
		t.properties = properties.Raw
	}
	one := list(recipient) // clients send an object, or a list of one
	if len(one) != 1 || one[0].Kind != jsonscan.Object {
		return nil, noRecipients
	}
	return t, r.recipientOf(t, one[0].Raw)
}

// sendIDFits reports whether a text can be an external_send_id.
func sendIDFits(id string) bool {
	const most = 200
	for i := range len(id) {
		c := id[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("-_+/=", c) < 0 {
			return false
		}
	}
	return id != "" && len(id) <= most
}

// campaign reads the template that is the campaign.
func (r *Request) campaign(ctx context.Context, t *triggered) error {
	if !mail.ValidTemplateID(r.ID) {
		return badCampaign
	}
	c, err := r.Templates.Template(ctx, r.ID)
	if sluice.IsNotFound(err) {
		return noCampaign
	}
	if err != nil {
		return unread(err)
	}
	if c.ArchivedMillis != 0 {
		return archivedCampaign
	}
	version, err := r.Templates.TemplateVersion(ctx, c.ID, c.Current)
	if err != nil {
		return unread(err)
	}
	t.campaign = &version
	if version.Class != mail.ClassTransactional {
		return otherCampaign
	}
	sender, err := mime.ParseMailbox(version.From)
	if err != nil || strings.ContainsAny(sender.Address.String(), "{}") {
		return complaint("The campaign has no sender: its template needs a 'from' with an address that is the same for everybody")
	}
	t.sender = sender.Address.String()
	return nil
}

// recipientOf reads the recipient, and what is written of them before the mail.
func (r *Request) recipientOf(t *triggered, raw string) (err error) {
	var external, alias, attributes jsonscan.Value
	if !(form{"external_user_id": &external, "user_alias": &alias, "attributes": &attributes}).read(raw) {
		return complaint(BadRequest)
	}
	switch {
	case external.Kind != jsonscan.None && alias.Kind != jsonscan.None:
		return complaint("Only one of 'external_user_id' and 'user_alias' may be given")
	case external.Kind != jsonscan.None:
		t.who, err = externalKey(external)
	case alias.Kind != jsonscan.None:
		t.who, err = aliasKey(alias)
	default:
		err = noRecipients
	}
	if err != nil || attributes.Kind == jsonscan.None {
		return err
	}
	if len(attributes.Raw) > sluice.MaxElementBytes {
		return errTooLarge
	}
	if attributes.Kind != jsonscan.Object || !NumbersFit(attributes.Raw) {
		return invalid("attributes", "an object, its whole numbers of 64 bits")
	}
	// An alias alone makes nobody: the user would have no external id to go by.
	u := user.Update{Op: user.OpAttributes, Key: t.who, ExistingOnly: t.who.Kind == user.KeyAlias, TimeMillis: r.Now.UnixMilli()}
	u.Body, err = profile.Check(attributes.Raw)
	t.attributes = &u
	return err
}

// applyAttributes writes what a call says of its recipient, and waits until the
// mail is made with it. Under an external_send_id they are written once, whatever
// becomes of the mail: what they increment is not incremented by a repeat.
func (r *Request) applyAttributes(ctx context.Context, t *triggered) error {
	u := t.attributes
	var err error
	if t.sendID == "" {
		err = r.Core.Update(ctx, []user.Update{*u})
	} else {
		err = r.Core.UpdateOnce(ctx, attributesName+t.sendID, users.MergeName(u.Key)+" "+u.Body, *u)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	if err := r.Applied(ctx, []user.Key{u.Key}); err != nil {
		return sluice.Refuse(sluice.CodeUnavailable, "the attributes were taken in, but not applied within 10 s; nothing was sent. %s", t.again())
	}
	return nil
}

// again says what a repeat of a call does whose attributes are in.
func (t *triggered) again() string {
	if t.sendID == "" {
		return "Send it again: without an external_send_id, what the attributes increment is incremented again"
	}
	return "Send it again: under its external_send_id all of it is taken in once"
}

// behind says of an error that comes behind the write of the attributes that they are in.
func (t *triggered) behind(err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || t.attributes == nil {
		return err
	}
	text := "Of the mail: " + e.Message
	if e == errUnread {
		text = "No mail was: the database does not answer, or not in time"
	}
	if e.Code == sluice.CodeUnavailable || e.Code == sluice.CodeTooFast {
		text += ". " + t.again()
	}
	return errors.Join(sluice.Refuse(e.Code, "the attributes were taken in. %s", text), err)
}
