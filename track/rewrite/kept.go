package rewrite

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	"sluice/store"
)

// Bounds of what is remembered of targets that were kept.
const (
	// keptFor is for how long a target is not written again. A database that goes back
	// loses what was written last: links of later mails are there again after that.
	keptFor = 10 * time.Minute

	// mostKept bounds the hashes that are remembered. Beyond it all are written anew.
	mostKept = 32_768

	// keptWithin is how long a mail waits for its targets. After a failure, or keptTimeouts
	// mails in a row that have waited in vain, no other does for keptRest: a mailing does
	// not slow down to the pace of a database that is away. One mail alone that has waited
	// in vain is tracked without its long links, and says nothing about others.
	keptWithin   = 500 * time.Millisecond
	keptTimeouts = 3
	keptRest     = 10 * time.Second
)

// errKeptRests says that targets were not kept lately, and that nobody tries for now.
var errKeptRests = errors.New("the database did not keep targets of links some seconds ago")

// address is an address of mail in a URL, escaped or not.
var address = regexp.MustCompile(`(?i)[^/?&=#;](?:@|%(?:25)*40)[^/?&=#;@]*[a-z0-9](?:\.|%(?:25)*2e)[a-z]`)

// named reports whether a target has an address of mail. A long one is not kept then: its
// row would be there long after the person was erased. The row cannot be erased, either. It
// does not say whether all of a mailing have the link, which would lead nowhere for them.
func named(target string) bool {
	return (strings.Contains(target, "@") || strings.Contains(target, "40")) && address.MatchString(target)
}

// kept knows which long targets were written lately, so that a mailing writes each once.
type kept struct {
	mu    sync.Mutex
	known map[string]struct{} // hashes
	since time.Time           // when known was empty

	failed   time.Time // when targets were last not kept; zero: all are, or were since
	timeouts int       // in a row
}

// put keeps targets that are not known to be kept. The error is errKeptRests in the
// keptRest after another one.
func (k *kept) put(ctx context.Context, s store.LinkStore, targets []longTarget) error {
	var fresh map[string]string
	k.mu.Lock()
	if now := time.Now(); len(k.known) >= mostKept || now.Sub(k.since) >= keptFor { // a time that nothing sets
		k.known, k.since = make(map[string]struct{}), now
	}
	for _, t := range targets {
		if _, ok := k.known[t.hash]; !ok {
			if fresh == nil {
				fresh = make(map[string]string, len(targets))
			}
			fresh[t.hash] = t.target
		}
	}
	rests := !k.failed.IsZero() && time.Since(k.failed) < keptRest
	k.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	if rests {
		return errKeptRests
	}
	within, stop := context.WithTimeout(ctx, keptWithin)
	defer stop()
	err := s.PutLinks(within, fresh)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil { // it is the caller that has no time
			return err
		}
		if within.Err() != nil {
			k.timeouts++
		}
		if within.Err() == nil || k.timeouts >= keptTimeouts {
			k.failed = time.Now()
		}
		return err
	}
	k.failed, k.timeouts = time.Time{}, 0
	for hash := range maps.Keys(fresh) {
		k.known[hash] = struct{}{}
	}
	return nil
}
