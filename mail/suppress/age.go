package suppress

import (
	"fmt"
	"time"

	"sluice/mail"
)

// Ages are how old a list may be that mail of a class is checked against. 0: any
// age.
type Ages struct{ Marketing, Transactional time.Duration }

// of returns the bound for a class.
func (a *Ages) of(class mail.Class) time.Duration {
	if class == mail.ClassTransactional {
		return a.Transactional
	}
	return a.Marketing
}

// age returns how long ago a look began. The monotonic clock counts on while the
// process is stopped, but not while the machine sleeps; the machine's clock is set
// when it wakes up. So the longer of both counts: a clock that is set ahead costs
// one look.
func age(looked, now time.Time) time.Duration {
	return max(now.Sub(looked), now.Round(0).Sub(looked.Round(0)))
}

// Fresh reports whether the list is recent enough to take mail of a class. A
// process that cannot reach the database does not know which addresses have
// unsubscribed meanwhile. One that was stopped has to look first. It waits for
// nobody.
func (f *Follower) Fresh(class mail.Class) bool {
	most := f.Oldest.of(class)
	if most == 0 {
		return true
	}
	f.mu.Lock()
	looked := f.looked
	f.mu.Unlock()
	return age(looked, time.Now()) <= most
}

// classes are those that a list may be too old for.
var classes = [...]mail.Class{mail.ClassMarketing, mail.ClassTransactional}

// Stale returns an error that says which mail waits because the list is too old,
// and why it is; nil: none.
func (f *Follower) Stale() error {
	status := f.Status()
	for _, class := range []mail.Class{mail.ClassTransactional, mail.ClassMarketing} {
		most := f.Oldest.of(class)
		if most == 0 || status.Age <= most {
			continue
		}
		waits := "marketing mail waits"
		if class == mail.ClassTransactional {
			waits = "all mail waits"
		}
		err := status.Err
		if err == nil {
			err = fmt.Errorf("no look at the database has ended since")
		}
		return fmt.Errorf("the suppression list is %.0f s old, more than suppression_age_seconds allows (%.0f s for %s mail): %s until the database answers: %w",
			status.Age.Seconds(), most.Seconds(), class, waits, err)
	}
	return nil
}

// tellAge logs when mail begins to wait for the list, and when it no longer does.
func (f *Follower) tellAge() {
	for i, class := range classes {
		stale := !f.Fresh(class)
		if stale == f.stale[i] {
			continue
		}
		f.stale[i] = stale
		status := f.Status()
		if stale {
			f.Log.Error("the suppression list is too old: mail waits until the database answers", "class", class.String(), "age_seconds", status.Age.Seconds(), "most_seconds", f.Oldest.of(class).Seconds(), "error", status.Err)
		} else {
			f.Log.Info("the suppression list is recent again: mail goes on", "class", class.String())
		}
	}
}
