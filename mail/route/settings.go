package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Mode says what is sent at all: the outermost gate.
type Mode string

// The modes. Sink is the default: a program that nobody has set anything for
// must not mail anybody.
const (
	Off       Mode = "off"        // nothing: mail waits
	Sink      Mode = "sink"       // all goes into the built-in mailboxes
	AllowList Mode = "allow-list" // to those of a list by the routes, all other into the mailboxes
	On        Mode = "on"
)

// Bounds.
const (
	MaxRoutes     = 64 // as bits of a word
	MaxPatterns   = 10_000
	MaxPerSecond  = 1_000_000
	MaxWarmupDays = 90

	// MaxDomains bounds the domains that are remembered; what is known of those
	// asked about longest ago is forgotten.
	MaxDomains = 50_000
)

// Pace is how fast something may go.
type Pace struct {
	PerSecond float64 // 0: as fast as it can
	Size      int     // what may be saved up; 0: a tenth of a second's worth, the transport's window at least
}

// ParsePace reads a number, a slash and s, m, h or d: 100/s, 5/m.
func ParsePace(text string) (float64, error) {
	digits, unit, ok := strings.Cut(text, "/")
	per := map[string]float64{"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || per == 0 || err != nil || n == 0 || float64(n)/per > MaxPerSecond {
		return 0, fmt.Errorf("is %q, want a number from 1, a slash and s, m, h or d: 100/s, 5/m", text)
	}
	return float64(n) / per, nil
}

// Settings are of one route.
type Settings struct {
	Transport mail.Transport // its name is the route's

	Weight int  // share of the mail that several routes could take; 0: 1
	Backup bool // it takes mail only if no other that could is up

	// Domains it takes and does not take: example.com, *.example.com for all
	// below. None: all, and none. The longest pattern that fits decides.
	Domains, Except []string
	Classes         []mail.Class // none: all

	// Direct says that the transport speaks to each domain's own servers. A
	// refusal because of us is then between that domain and us, and mail to
	// other domains goes on.
	Direct bool

	Pace      Pace            // of the route
	PerDomain Pace            // of each domain of it
	Paces     map[string]Pace // of single domains, instead of PerDomain

	// Warmup are how many mails a day it may take, from the day WarmupFrom (UTC)
	// on; after the last as many as the pace allows.
	Warmup     []int
	WarmupFrom time.Time
}

// Options are what a Router is made of.
type Options struct {
	Mode   Mode
	Allow  []string       // with AllowList: addresses, and domains as of Settings
	Sink   mail.Transport // the built-in mailboxes
	Routes []Settings

	// Paused lists the journeys that are paused; nil: there are none.
	Paused func(ctx context.Context) (journeys []string, err error)

	Redis Redis
	Days  Days // nil: Redis alone knows what was sent today
	Kept  Kept // nil: Redis alone knows what is stopped
	Clock sluice.Clock
	Log   *slog.Logger // why routes do not work; nil: nobody wants to know
}

// Days knows how many mails a route attempted on a day (since 1970, UTC), as far
// as that is stored. mail.RouteDayStore is one.
type Days interface {
	RouteDay(ctx context.Context, route string, day int64) (int64, error)
}

// What a bucket does when the other side says that it is too much.
const (
	leastShare = 0.02
	growth     = 10 * time.Minute // 16 % of the rate in less than two minutes
)

// bucketOf returns the bucket of a pace, nil if there is none.
func bucketOf(p Pace, window int, domain string) *flow.Bucket {
	if p.PerSecond == 0 {
		return nil
	}
	if p.Size == 0 {
		p.Size = max(int(math.Ceil(p.PerSecond/10)), window)
	}
	return &flow.Bucket{Domain: domain, PerSecond: p.PerSecond, Size: p.Size, Least: leastShare, Growth: growth}
}

// Check says what is wrong with a route, nil if nothing is.
func (s *Settings) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Weight < 0 || s.Weight > 1000 {
		wrong("weight is %d, want 1 to 1000", s.Weight)
	}
	if len(s.Domains)+len(s.Except) > MaxPatterns {
		wrong("domains and except have %d entries, the most is %d", len(s.Domains)+len(s.Except), MaxPatterns)
	}
	for _, p := range slices.Concat(s.Domains, s.Except) {
		if err := CheckDomain(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(s.Warmup) > MaxWarmupDays {
		wrong("warmup has %d days, the most is %d", len(s.Warmup), MaxWarmupDays)
	}
	for _, n := range s.Warmup {
		if n < 1 {
			wrong("warmup has %d, want how many mails a day, from 1", n)
		}
	}
	if len(s.Warmup) > 0 && s.WarmupFrom.IsZero() {
		wrong("warmup has no day to begin with; set warmup_from: %s", "2026-01-31")
	}
	window := s.Transport.Window()
	paces := map[string]Pace{"pace": s.Pace, "pace_per_domain": s.PerDomain}
	for domain, p := range s.Paces {
		if CheckDomain(domain) != nil || strings.HasPrefix(domain, "*") {
			wrong("paces has %q, want a domain", domain)
		}
		paces["paces."+domain] = p
	}
	for name, p := range paces {
		// Tokens are taken one a mail, but a window that never fits would be sent
		// in pieces for ever.
		if b := bucketOf(p, window, ""); b != nil && b.Size < window {
			wrong("%s saves up %d, less than the %d that go at once; raise it", name, b.Size, window)
		}
	}
	return errors.Join(errs...)
}

// CheckDomain says what is wrong with a domain of settings, nil if nothing is.
func CheckDomain(p string) error {
	name := strings.TrimPrefix(p, "*.")
	if name == "" || len(name) > 253 || name != strings.ToLower(name) || strings.ContainsAny(name, "*@/ \t") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
		return fmt.Errorf("%q is no domain; want example.com, or *.example.com for all below it, in lower case, of others the form with xn--", p)
	}
	return nil
}

// patterns are domains by name; those of "*.x" are ".x".
type patterns map[string]bool

func newPatterns(lists ...[]string) patterns {
	p := make(patterns)
	for i, list := range lists {
		for _, s := range list {
			p[strings.TrimPrefix(s, "*")] = i == 0
		}
	}
	return p
}

// find returns what the longest pattern says that fits a domain.
func (p patterns) find(domain string) (takes, found bool) {
	if takes, found = p[domain]; found {
		return takes, true
	}
	for {
		dot := strings.IndexByte(domain, '.')
		if dot < 0 {
			return false, false
		}
		if takes, found = p[domain[dot:]]; found {
			return takes, true
		}
		domain = domain[dot+1:]
	}
}
