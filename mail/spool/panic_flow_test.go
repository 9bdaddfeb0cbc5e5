package spool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// breaking is a Maker that panics at the mails of a recipient. Before that it
// has changed the contents of those before it, as a Mailer does.
type breaking struct {
	spool.Plain
	to string
}

func (b breaking) Make(ctx context.Context, mails []spool.Mail) {
	for i := range mails {
		if mails[i].Send.To == b.to {
			panic("a rendering that breaks")
		}
		b.Plain.Make(ctx, mails[i:i+1])
		mails[i].Content = []byte("made")
	}
}

// TestAPanicEndsWithItsMail: a mail that breaks the program while it is made is
// parked. One that breaks it while it is sent is in doubt, attempted once more
// and then kept. All others leave, and each has its reason in its life.
func TestAPanicEndsWithItsMail(t *testing.T) {
	const unmade, unsent = "u3@example.com", "u7@example.com"
	b := newBed(t)
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		if e.To == unsent {
			panic("a content that breaks")
		}
		if string(e.Content) == "made" {
			t.Error("a content was made twice")
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.sender.Maker = breaking{to: unmade}
	o.run()
	id := o.submit(toMany(draft("", mail.PriorityNormal, mail.ClassTransactional), 40))[0]
	b.eventually("all others have left", func() bool { return o.totals() == "waiting 1, sent 38, in_doubt 1" && o.waiting() == 1 })
	for to, want := range map[string]string{unmade: "panic: a rendering that breaks", unsent: "panic: a content that breaks"} {
		found := false
		for _, out := range b.outcomes() {
			found = found || out.Message == id && out.To == to && strings.Contains(out.Reply, want)
		}
		if !found {
			t.Errorf("no outcome of %s says %q", to, want)
		}
	}
	if n := w.times()[fmt.Sprintf("%s.7", id)]; n > 2 {
		t.Errorf("the mail that breaks the program was attempted %d times", n)
	}
	o.submit(draft("later@example.com", mail.PriorityNormal, mail.ClassTransactional))
	b.eventually("the process goes on", func() bool { return strings.Contains(o.totals(), "sent 39") })
}
