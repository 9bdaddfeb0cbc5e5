package spool

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/mail"
)

// What takes too long to make is retried less and less often. What only cannot
// be made now is retried after seconds at first, and after a minute later on. Of
// both the reason is said, and both expire.
func TestTooSlowIsTriedLessOften(t *testing.T) {
	for _, x := range []struct {
		err  error
		most int // tries within the five days that a mail has
	}{{ErrSlow, 50}, {ErrNotNow, 10_000}} {
		now := int64(1_700_000_000_000)
		send := &mail.Send{Message: "m", Class: mail.ClassTransactional, AcceptedMillis: now, ExpiresMillis: now + (5 * 24 * time.Hour).Milliseconds()}
		tries, longest := 0, time.Duration(0)
		first := notNow(send, x.err, now).again.DueMillis - now
		if soon := first == notNowSoonest.Milliseconds(); soon != errors.Is(x.err, ErrNotNow) {
			t.Errorf("%v: the first wait is %d ms", x.err, first)
		}
		for {
			tries++
			v := notNow(send, fmt.Errorf("render: %w", x.err), now)
			if v.outcome.Reply != "render: "+x.err.Error() {
				t.Fatalf("the reason is %q", v.outcome.Reply)
			}
			if v.again == nil {
				if v.outcome.State != mail.SendFailed || v.outcome.Reason != reasonExpired {
					t.Errorf("%v: in the end %+v", x.err, v.outcome)
				}
				break
			}
			if v.outcome.State != mail.SendWaiting || v.outcome.Attempts != v.again.Attempts {
				t.Fatalf("%v: %+v", x.err, v.outcome)
			}
			if counts := v.again.Attempts == send.Attempts+1; counts != errors.Is(x.err, ErrSlow) {
				t.Fatalf("%v: that it counts as an attempt is %v", x.err, counts)
			}
			longest = max(longest, time.Duration(v.again.DueMillis-now)*time.Millisecond)
			send, now = v.again, v.again.DueMillis
		}
		if tries > x.most || (longest > notNowLatest) != errors.Is(x.err, ErrSlow) {
			t.Errorf("%v: %d tries, the longest wait %s", x.err, tries, longest)
		}
	}
}

// A send that is refused for now, and expires before its time as usual, is tried a few
// times more, each time before the end.
func TestTriesBeforeTheEnd(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 55 * time.Second, 10 * time.Minute, 3 * time.Hour, 5 * 24 * time.Hour} {
		now := int64(1_700_000_000_000)
		send := &mail.Send{Message: "m", AcceptedMillis: now, ExpiresMillis: now + lasts.Milliseconds()}
		tries, before := 0, 0 // all, and those that came before their time as usual
		for {
			v := verdictOfResult(send, "route", false, &mail.Result{Kind: mail.ResultDeferred, Code: 451}, 0, now)
			if v.again == nil {
				if v.outcome.State != mail.SendFailed || v.outcome.Reason != reasonExpired {
					t.Errorf("%s: in the end %+v", lasts, v.outcome)
				}
				break
			}
			tries++
			usual := retryLongest
			if send.Attempts < len(retryAfter) {
				usual = retryAfter[send.Attempts]
			}
			if v.again.DueMillis-now < (usual * 3 / 4).Milliseconds() {
				before++
			}
			if left := v.again.ExpiresMillis - v.again.DueMillis; left < (lastTryLeft / 2).Milliseconds() {
				t.Errorf("%s: try %d is %d ms before the end", lasts, tries, left)
			}
			send, now = v.again, v.again.DueMillis
		}
		// The first try as usual comes after 45 to 75 s.
		soon := lasts > lastTryLeft && lasts < retryAfter[0]*3/4
		if before > 7 || soon && before == 0 || tries == 0 != (lasts < lastTryLeft) {
			t.Errorf("%s: %d tries, %d of them before their time", lasts, tries, before)
		}
	}
}

// A send whose template does not want it sent is cancelled with the text as its reply.
// One that was in doubt stays so and is kept, for it may have arrived.
func TestAbortedIsCancelled(t *testing.T) {
	for _, x := range []struct {
		doubted bool
		want    mail.SendState
	}{{false, mail.SendCancelled}, {true, mail.SendInDoubt}} {
		v := aborted(&mail.Send{Message: "m", Doubted: x.doubted}, fmt.Errorf("%w: no time", ErrAborted), 1).verdict
		if o := v.outcome; o.State != x.want || o.Event != "" || o.Reason != mail.ReasonAborted || o.Reply != "aborted: no time" || v.again != nil || (v.kept != nil) != x.doubted {
			t.Errorf("in doubt %t: %+v, kept %t", x.doubted, o, v.kept != nil)
		}
	}
}
