package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/dkim"
	"sluice/mail/template"
	"sluice/user"
	"sluice/user/profile"
)

// Mailer is the Maker of the program: it renders templates, and signs for the
// domains whose keys it has.
type Mailer struct {
	Templates *template.Cache
	Users     Users

	// Links makes the links by which recipients unsubscribe; nil: there are none.
	// UnsubscribeMailto is an address that takes their mails as well; empty: none.
	Links             Links
	UnsubscribeMailto string

	// FeedbackID returns what stands in a mail's CFBL-Feedback-ID (RFC 9477, 3.2): by it a
	// complaint proves which mail it is about. nil: mails have none.
	FeedbackID func(s *mail.Send) string

	// Signers has the keys of sender domains. Mail of other domains goes out
	// unsigned: its provider signs, or nobody does. nil: no mail is signed.
	Signers *dkim.Ring

	// Tracker puts into mails what opens and clicks are known by; nil: nothing.
	Tracker Tracker

	// Untracked is told how many mails leave without links and pixel, because the
	// database did not say who may be tracked. nil: nobody wants to know.
	Untracked func(mails int, why error)

	// Meet is told the domains that each mail is from, in lower case: that of
	// its envelope and those of its header From. nil: nobody wants to know.
	Meet func(domain string)

	// Refused returns of domains, in lower case, those from which no mail is to go
	// out, and why. It is asked about those that templates put into From beside the
	// envelope's: nobody could know them when the mail was accepted. nil: all goes.
	Refused func(ctx context.Context, domains []string) map[string]*sluice.Error

	Clock sluice.Clock
}

// Users is where recipients are looked up. user.Store is one.
type Users interface {
	Users(ctx context.Context, q user.Query) (user.Answer, error)
}

// Links makes the link by which the recipient of a send unsubscribes, empty where
// there is none. group is the subscription group that the mail belongs to, or empty.
// consent.Service is one.
type Links interface {
	UnsubscribeURL(s *mail.Send, group string) (string, error)
}

// Make renders and signs. Who is mailed by a template is looked up for all of
// the window at once. Every send passes here, with a template or without: a header
// that all mails are to have is added beside unsubscribable, before the signature.
// buildMail makes mails of templates alone.
//
// A journey has made mail for a person who was there. So if marketing mail of a journey finds
// nobody, it waits: the database may have gone back a moment and gets that person again.
// Whether a deleted person's mail is cancelled says the journey (askJourneys).
func (m *Mailer) Make(ctx context.Context, mails []Mail) {
	started := m.Clock.Now()
	asked := m.cutTracks(mails)
	found, err := m.recipients(ctx, mails, asked)
	looked := m.Clock.Now()
	if err != nil {
		m.untracked(asked, err)
	}
	slow, bytes := make(slowTemplates), 0
	authors, groups := make([]string, len(mails)), make([]string, len(mails))
	for i := range mails {
		message := &mails[i]
		switch {
		case bytes >= maxWindowBytes:
			message.Err = ErrNoRoom
		case message.Send.Form != mail.ContentTemplate:
			if asked[i] != 0 && err == nil { // without the database nobody is tracked: who knows what the recipient wants
				message.Content = m.trackMessage(ctx, message.Send, message.Content, asked[i], found[keyOf(message.Send)])
			}
		case err != nil:
			message.Err = fmt.Errorf("look up the recipient: %w: %w", ErrNotNow, err)
		default:
			to := found[keyOf(message.Send)]
			message.Content, authors[i], groups[i], message.Err = m.render(ctx, message.Send, message.Content, to, slow)
			if to.profile == nil && message.Send.Journey != "" && errors.Is(message.Err, ErrUnwanted) {
				message.Err = fmt.Errorf("look up the recipient %s of journey %s: %w: nobody is there, perhaps the database went back", message.Send.User, message.Send.Journey, ErrNotNow)
			}
		}
		bytes += len(message.Content)
	}
	m.parkRefused(ctx, mails, authors)
	rendered := m.Clock.Now()
	for i := range mails {
		mail := &mails[i]
		if mail.Err != nil {
			continue
		}
		var content []byte
		if content, mail.Err = m.unsubscribable(mail.Send, mail.Content, groups[i]); mail.Err == nil {
			content = m.traceable(mail.Send, content)
			content, mail.Err = m.sign(mail.Send, content, authors[i], rendered)
		}
		if mail.Err == nil {
			mail.Envelope = envelopeOf(mail.Send, content)
		}
	}
	signed := m.Clock.Now()
	for i := range mails {
		took := mails[i].Took
		took[mail.StageProfile], took[mail.StageRender], took[mail.StageSign] = looked.Sub(started), rendered.Sub(looked), signed.Sub(rendered)
	}
}

// keyOf returns the key by which the recipient of a send is looked up. A user
// without an external id is named by the internal id, as in events.
func keyOf(s *mail.Send) user.Key {
	if s.User != "" {
		return user.Key{Kind: user.KeyExternal, Name: s.User}
	}
	address, _ := profile.NormalAddress(s.To) // nobody has one that is none
	return user.Key{Kind: user.KeyEmail, Name: address}
}

// ofRecipient returns the profile that a send is rendered with: the one that
// was looked up, if it is the recipient's own, else nil. A caller that hands in
// mail may name any user and any address. What is known of one user must not be
// read in the mailbox of somebody else, so the user has to have the address.
func ofRecipient(s *mail.Send, p *profile.Profile) *profile.Profile {
	if p == nil || s.User == "" || p.HasAddress(s.To) { // without a user it was found by the address
		return p
	}
	return nil
}

// recipient is what is known of a recipient.
type recipient struct {
	profile *profile.Profile // nil: of nobody, or of several who share the address
	id      user.ID          // whose it is
	off     mail.Track       // what the recipient does not want known, or one of several
}

// recipients looks up the recipients of mails that are templates or are to be
// tracked. Who is not there is the zero recipient.
func (m *Mailer) recipients(ctx context.Context, mails []Mail, asked []mail.Track) (map[user.Key]recipient, error) {
	var q user.Query
	waits := false                        // for the answer, however long it takes
	numbers := make(map[user.Key]user.ID) // of names that could be a user's number
	for i := range mails {
		if s := mails[i].Send; s.Form == mail.ContentTemplate || asked[i] != 0 {
			waits = waits || s.Form == mail.ContentTemplate
			key := keyOf(s)
			q.Keys = append(q.Keys, key)
			if id, ok := user.ParseID(s.User); ok {
				q.IDs, numbers[key] = append(q.IDs, id), id
			}
		}
	}
	if len(q.Keys) == 0 {
		return nil, nil
	}
	if !waits {
		limited, stop := context.WithTimeout(ctx, trackLookup)
		defer stop()
		ctx = limited
	}
	answer, err := m.Users.Users(ctx, q)
	if err != nil {
		return nil, err
	}
	found := make(map[user.Key]recipient, len(q.Keys))
	for _, key := range q.Keys {
		ids := answer.ByKey[key]
		if id, ok := numbers[key]; ok && len(ids) == 0 {
			ids = []user.ID{id}
		}
		if _, done := found[key]; !done {
			r := recipientOf(&answer, ids)
			if answer.Shared[key] {
				r.off = mail.TrackAll // who knows what the others want
			}
			found[key] = r
		}
	}
	return found, nil
}

// recipientOf is what an answer says of the users who have a key.
func recipientOf(answer *user.Answer, ids []user.ID) (r recipient) {
	for _, id := range ids {
		row, ok := answer.Owner(id)
		if !ok || row.Profile == "" {
			continue
		}
		p, err := profile.Parse(row.Profile)
		if err != nil {
			continue
		}
		r.off |= unwanted(p)
		if len(ids) == 1 {
			r.profile, r.id = p, row.ID
		}
	}
	return r
}

// maxSlow is how many mails of one template may take too long before no other of
// the window is tried: others wait for the window.
const maxSlow = 2

// slowTemplates are those of a window that took too long, with the errors.
type slowTemplates map[string][]error

// parkRefused parks mails from domains that they are not to go out from, one for each:
// they wait until that is mended. All are asked about at once, for it may take its
// time.
func (m *Mailer) parkRefused(ctx context.Context, mails []Mail, domains []string) {
	if m.Refused == nil {
		return
	}
	var asked []string
	for i, domain := range domains {
		if mails[i].Err != nil || domain == mime.DomainOf(mails[i].Send.From) { // that was known when it was accepted
			domains[i] = ""
		} else if domain != "" && !slices.Contains(asked, domain) {
			asked = append(asked, domain)
		}
	}
	if len(asked) == 0 {
		return
	}
	refused := m.Refused(ctx, asked)
	for i, domain := range domains {
		if wrong := refused[domain]; wrong != nil {
			mails[i].Err = fmt.Errorf("%w: %s", ErrParked, wrong.Message)
		}
	}
}

// render makes the message of a template. It returns the domain that its readers see it
// is from, and the subscription group that it belongs to.
func (m *Mailer) render(ctx context.Context, s *mail.Send, content []byte, to recipient, slow slowTemplates) (message []byte, domain, group string, err error) {
	p := ofRecipient(s, to.profile)
	c, err := template.ParseContent(string(content))
	if err != nil {
		return nil, "", "", err
	}
	if c.State != "" && !p.InAudience(c.State) || c.Group != "" && p.Left(c.Group) {
		return nil, "", "", ErrUnwanted
	}
	name := fmt.Sprint(c.Template, " ", c.Version)
	if c.Mail != nil {
		name = s.Message
	}
	if before := slow[name]; len(before) == maxSlow {
		return nil, "", "", before[0]
	}
	t, err := m.compiled(ctx, s, &c)
	if err != nil {
		return nil, "", "", err
	}
	link, err := m.link(s, c.Group)
	if err != nil {
		return nil, "", "", err
	}
	made, err := t.Render(&template.Input{
		Variables: c.Variables, Profile: p, Unsubscribe: link, Clock: m.Clock,
		Origin: template.Origin{Message: s.Message, Journey: s.Journey, Step: s.Step, Variant: s.Variant},
	})
	if err != nil {
		return nil, "", "", notMade(err, c.Template, func(err error) { slow[name] = append(slow[name], err) })
	}
	date := time.UnixMilli(max(s.AcceptedMillis, s.DueMillis))
	if tracked, ok := m.trackHTML(ctx, s, &made, mail.TrackAll&^c.Off, to); ok {
		if message, domain, err = buildMail(tracked, s.From, s.To, s.ID(), date); err == nil {
			return message, domain, c.Group, nil // else it is too large, perhaps with its links alone
		}
	}
	message, domain, err = buildMail(&made, s.From, s.To, s.ID(), date)
	return message, domain, c.Group, err
}

// notMade is why a mail was not rendered, and calls slow if it took too long.
func notMade(err error, id string, slow func(error)) error {
	e, ok := errors.AsType[*template.Error](err)
	switch {
	case ok && e.Kind == template.KindTime:
		err = fmt.Errorf("render template %s: %w: %w", id, ErrSlow, err) // perhaps the machine is busy
		slow(err)
	case ok && e.Kind == template.KindAborted:
		err = fmt.Errorf("%w: %w", ErrAborted, err)
	}
	return err
}

// compiled returns the template of a send. What a mail says itself is compiled
// once for all who get it.
func (m *Mailer) compiled(ctx context.Context, s *mail.Send, c *template.Content) (*template.Template, error) {
	switch {
	case c.Mail != nil && s.Recipients > 1:
		return m.Templates.Compiled(s.Message, c.Mail)
	case c.Mail != nil:
		return template.Compile(c.Mail)
	}
	t, err := m.Templates.Get(ctx, c.Template, c.Version)
	if _, own := errors.AsType[*template.Error](err); err != nil && !own {
		return nil, fmt.Errorf("read template %s: %w: %w", c.Template, ErrNotNow, err)
	}
	return t, err
}

// buildMail makes a message of what was rendered, from an address unless the
// template says another one, and returns the domain that it is from.
func buildMail(made *template.Message, from, to, id string, date time.Time) (message []byte, domain string, err error) {
	if made.From != "" {
		from = made.From
	}
	sender, err := mime.ParseMailbox(from)
	if err != nil {
		return nil, "", err
	}
	recipient, err := mime.ParseMailbox(to)
	if err != nil {
		return nil, "", err
	}
	common := mime.Common{From: sender}
	for _, h := range made.Headers {
		if h.Value == "" {
			continue // nothing is known for it of this recipient
		}
		if strings.EqualFold(h.Name, "Reply-To") {
			to, err := mime.ParseMailbox(h.Value)
			if err != nil {
				return nil, "", fmt.Errorf("header Reply-To: %w", err)
			}
			common.ReplyTo = append(common.ReplyTo, to)
			continue
		}
		common.Headers = append(common.Headers, mime.Header{Name: h.Name, Value: h.Value})
	}
	message, err = mime.Build(&common, &mime.Fields{
		To: []mime.Mailbox{recipient}, Subject: made.Subject, Text: made.Text, HTML: made.HTML, Preheader: made.Preheader,
		ID: id + "@" + sender.Domain, Date: date.UTC(),
	})
	return message, sender.Domain, err
}

// link is the one by which the recipient unsubscribes, empty if there is none.
func (m *Mailer) link(s *mail.Send, group string) (string, error) {
	if m.Links == nil {
		return "", nil
	}
	return m.Links.UnsubscribeURL(s, group)
}

// unsubscribable adds the one-click unsubscribe headers to marketing mail,
// which large mailbox providers require (RFC 8058), unless the sender has put
// its own. They are added before the signature, since they count only if they
// are signed, and only with an https link (RFC 8058, 3.1).
func (m *Mailer) unsubscribable(s *mail.Send, content []byte, group string) ([]byte, error) {
	if s.Class != mail.ClassMarketing || m.Links == nil || mime.HasField(content, "List-Unsubscribe") {
		return content, nil
	}
	link, err := m.link(s, group)
	if err != nil || !strings.HasPrefix(link, "https://") {
		return content, err
	}
	headers, err := mime.AppendUnsubscribe(make([]byte, 0, len(content)+len(link)+unsubscribeBytes+signatureBytes), link, m.mailto())
	if err != nil {
		return nil, err
	}
	return append(headers, content...), nil
}

// traceable adds the header by which a feedback loop names the mail. The signature covers
// it, as RFC 9477, 3.2 wants.
func (m *Mailer) traceable(s *mail.Send, content []byte) []byte {
	const header = "CFBL-Feedback-ID"
	if m.FeedbackID == nil || mime.HasField(content, header) {
		return content
	}
	id := m.FeedbackID(s)
	if id == "" {
		return content
	}
	return slices.Concat([]byte(header+": "+id+"\r\n"), content)
}

// mailto is what a mail to unsubscribe by is addressed to.
func (m *Mailer) mailto() string {
	if m.UnsubscribeMailto == "" {
		return ""
	}
	return m.UnsubscribeMailto + "?subject=unsubscribe"
}

// unsubscribeBytes is about how long these headers are without the link.
const unsubscribeBytes = 256

// maxAuthors bounds for how many domains of a header From a mail is signed.
const maxAuthors = 4

// sendersOf returns the domains that readers see a mail is from: those of its
// header From, author if that is known (RFC 7489, 3.1.1). The envelope's sender is
// another matter: it is empty in bounces (RFC 5321, 4.5.5), and many providers put
// a domain of their own there. It stands in only where the header names nobody who
// can be read.
func sendersOf(s *mail.Send, content []byte, author string) []string {
	if author != "" {
		return []string{author}
	}
	if authors, err := mime.AuthorDomains(content); err == nil {
		return authors[:min(len(authors), maxAuthors)]
	}
	return []string{mime.DomainOf(s.From)}
}

// sign puts the signatures of the senders' domains before a message, one for each
// domain that has a key of its own. author is the domain in its header From, empty
// if that has to be read.
func (m *Mailer) sign(s *mail.Send, content []byte, author string, now time.Time) ([]byte, error) {
	if m.Meet == nil && m.Signers == nil {
		return content, nil
	}
	senders := sendersOf(s, content, author)
	if envelope := mime.DomainOf(s.From); m.Meet != nil && !slices.Contains(senders, envelope) {
		m.Meet(envelope)
	}
	var signers []*dkim.Signer
	for _, domain := range senders {
		if m.Meet != nil {
			m.Meet(domain)
		}
		if signer := m.Signers.For(domain); signer != nil && !slices.Contains(signers, signer) {
			signers = append(signers, signer)
		}
	}
	if len(signers) == 0 {
		return content, nil
	}
	header, body := dkim.Split(content)
	sum := dkim.HashBody(body)
	signed := make([]byte, 0, len(content)+len(signers)*signatureBytes)
	for _, signer := range signers {
		var err error
		if signed, err = signer.Sign(signed, now, sum, header); err != nil {
			return nil, fmt.Errorf("sign for %s: %w", signer.Domain(), err)
		}
	}
	return append(signed, content...), nil
}

// signatureBytes is about how long a signature is.
const signatureBytes = 1024
