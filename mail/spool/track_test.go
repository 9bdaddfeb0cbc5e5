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
	"sluice/user"
)

// stamp is a tracker that writes what it was asked for behind a message.
type stamp struct{}

func (stamp) Wanted(_ *mail.Send, asked mail.Track) mail.Track { return asked }

func (stamp) HTML(_ context.Context, source string, t *spool.Tracked) (string, bool) {
	return source + t.What.String(), true
}

func (stamp) Message(_ context.Context, content []byte, t *spool.Tracked) []byte {
	return append(bytes.Clone(content), (t.User.String() + " " + t.What.String())...)
}

// asks is where users are looked up.
type asks func(ctx context.Context) (user.Answer, error)

func (f asks) Users(ctx context.Context, _ user.Query) (user.Answer, error) { return f(ctx) }

// What is not to be known of one of those who have an address is known of nobody
// there. While nobody knows, mail that is ready leaves as it is, and soon.
func TestWhoMayBeTracked(t *testing.T) {
	const message = "From: shop@example.com\r\n\r\nx\r\n"
	key := user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}
	ann, shy := user.ID{Partition: 1, Number: 5}, user.ID{Partition: 2, Number: 6}
	rows := map[user.ID]user.Row{
		ann: {ID: ann, Profile: `{"fields":{"email":"ann@example.com"}}`},
		shy: {ID: shy, Profile: `{"fields":{"email":"ann@example.com","email_click_tracking_disabled":true}}`},
	}
	found := func(shared bool, ids ...user.ID) asks {
		return func(context.Context) (user.Answer, error) {
			return user.Answer{ByKey: map[user.Key][]user.ID{key: ids}, Users: rows, Shared: map[user.Key]bool{key: shared}}, nil
		}
	}
	untracked := 0
	for name, x := range map[string]struct {
		users asks
		asked mail.Track
		want  string
	}{
		"nobody":         {found(false), mail.TrackAll, message + user.ID{}.String() + " opens, clicks"},
		"one":            {found(false, ann), mail.TrackAll, message + ann.String() + " opens, clicks"},
		"one who is shy": {found(false, shy), mail.TrackAll, message + shy.String() + " opens"},
		"two":            {found(false, ann, shy), mail.TrackAll, message + user.ID{}.String() + " opens"},
		"too many":       {found(true, ann), mail.TrackAll, message},
		"nothing asked":  {func(context.Context) (user.Answer, error) { panic("looked up for nothing") }, 0, message},
		"an error":       {func(context.Context) (user.Answer, error) { return user.Answer{}, errors.New("away") }, mail.TrackAll, message},
		"no answer": {func(ctx context.Context) (user.Answer, error) {
			<-ctx.Done()
			return user.Answer{}, ctx.Err()
		}, mail.TrackOpens, message},
	} {
		m := &spool.Mailer{Users: x.users, Tracker: stamp{}, Untracked: func(n int, _ error) { untracked += n }, Clock: sluice.SystemClock{}}
		mails := []spool.Mail{{Send: &mail.Send{Message: "m", Form: mail.ContentMIME, From: "shop@example.com", To: "Ann@example.com"},
			Content: mail.WithTrack([]byte(message), x.asked), Took: new([mail.Stages]time.Duration)}}
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		m.Make(ctx, mails)
		if got := string(mails[0].Envelope.Content); mails[0].Err != nil || got != x.want || ctx.Err() != nil {
			t.Errorf("%s: %v\ngot  %q\nwant %q", name, mails[0].Err, got, x.want)
		}
		stop()
	}
	if untracked != 2 {
		t.Errorf("%d mails were told of that nobody knew whether they may be tracked", untracked)
	}
}
