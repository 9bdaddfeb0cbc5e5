package spool

import (
	"context"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/user"
	"sluice/user/profile"
)

// Tracker puts into mails what it takes to know of opens and clicks. It never
// fails: a mail that it cannot change it leaves as it is. rewrite.Tracker is one.
// Its methods may be called from several goroutines at once.
type Tracker interface {
	// Wanted returns what of all that is asked for settings let be known of a send.
	Wanted(s *mail.Send, asked mail.Track) mail.Track

	// HTML returns HTML with links and pixel, false: it is as it was.
	HTML(ctx context.Context, source string, t *Tracked) (string, bool)

	// Message does the same to the HTML of a message that is ready to go.
	Message(ctx context.Context, content []byte, t *Tracked) []byte
}

// Tracked is a send that is tracked.
type Tracked struct {
	Send *mail.Send
	User user.ID // zero: not known
	What mail.Track
}

// trackLookup is how long mails that are ready wait until it is known whether their
// recipients may be tracked. After that they leave as they are: a database that
// hangs keeps no such mail back, if no mail of a template is in the same window.
const trackLookup = 5 * time.Second

// untracked tells how many mails of a window leave as they are, because it is not
// known who may be tracked.
func (m *Mailer) untracked(asked []mail.Track, why error) {
	n := 0
	for _, a := range asked {
		if a != 0 {
			n++
		}
	}
	if n > 0 && m.Untracked != nil {
		m.Untracked(n, why)
	}
}

// cutTracks takes out of contents what they say is to be known of them, and returns
// what of it may be: of templates nothing, which say it themselves.
func (m *Mailer) cutTracks(mails []Mail) []mail.Track {
	asked := make([]mail.Track, len(mails))
	for i := range mails {
		if mails[i].Send.Form != mail.ContentMIME {
			continue
		}
		asked[i], mails[i].Content = mail.CutTrack(mails[i].Content)
		if asked[i] != 0 {
			asked[i] = m.wanted(mails[i].Send, asked[i])
		}
	}
	return asked
}

// wanted is what is let be known of a send.
func (m *Mailer) wanted(s *mail.Send, asked mail.Track) mail.Track {
	if m.Tracker == nil || asked == 0 {
		return 0
	}
	return m.Tracker.Wanted(s, asked)
}

// unwanted is what a user does not want known: the two standard attributes that
// Braze has for it.
func unwanted(p *profile.Profile) (off mail.Track) {
	if p.Fields.Get("email_open_tracking_disabled") == "true" {
		off |= mail.TrackOpens
	}
	if p.Fields.Get("email_click_tracking_disabled") == "true" {
		off |= mail.TrackClicks
	}
	return off
}

// tracked says what is put into a mail, false: nothing.
func (m *Mailer) tracked(s *mail.Send, asked mail.Track, to recipient) (*Tracked, bool) {
	t := &Tracked{Send: s, What: m.wanted(s, asked) &^ to.off}
	if ofRecipient(s, to.profile) != nil {
		t.User = to.id
	}
	return t, t.What != 0
}

// trackHTML returns what was rendered with links and pixel, false: it is as it was.
// The text that is derived of HTML has the links as they were.
func (m *Mailer) trackHTML(ctx context.Context, s *mail.Send, made *template.Message, asked mail.Track, to recipient) (*template.Message, bool) {
	t, ok := m.tracked(s, asked, to)
	if !ok || made.HTML == "" {
		return nil, false
	}
	changed := *made
	if changed.HTML, ok = m.Tracker.HTML(ctx, made.HTML, t); !ok {
		return nil, false
	}
	if changed.Text == "" {
		changed.Text = mime.Text(made.HTML)
	}
	return &changed, true
}

// trackMessage returns a message that is ready with links and pixel.
func (m *Mailer) trackMessage(ctx context.Context, s *mail.Send, content []byte, asked mail.Track, to recipient) []byte {
	t, ok := m.tracked(s, asked, to)
	if !ok {
		return content
	}
	return m.Tracker.Message(ctx, content, t)
}
