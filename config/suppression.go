package config

import (
	"fmt"

	"sluice/mail"
)

// Limits of foreign sets.
const (
	MaxSuppressionSets = 16

	// MaxSetNameBytes leaves room in the source of a suppression.
	MaxSetNameBytes = 160
)

// SuppressionAge is how old the list may be, by the class of mail.
type SuppressionAge struct {
	Marketing     int `yaml:"marketing" range:"1..86400" doc:"Marketing mail waits while the list is older, 1 to 86400 seconds."`
	Transactional int `yaml:"transactional" range:"1..86400" doc:"Transactional mail waits while the list is older, 1 to 86400 seconds."`
}

// SuppressionSet is a foreign set that is followed: its members are not mailed.
type SuppressionSet struct {
	Name       string // its key in Redis: the key of the mapping
	Redis      URL    `yaml:"redis" doc:"The server of the set. Default: the main one." sample:"redis://10.0.0.7:6379/0"`
	Subdomains bool   `yaml:"subdomains" doc:"true: a domain stands for all below it too."`
	Reason     string `yaml:"reason" doc:"Why its members are not mailed: bad_domain, manual, hard_bounce."`
}

// newSuppressionSet is one that nothing is set of.
func newSuppressionSet(name string) SuppressionSet {
	return SuppressionSet{Name: name, Reason: mail.SuppressBadDomain.String()}
}

func (f *findings) suppressionSets() {
	f.most("suppression_sets", "entries", len(f.c.SuppressionSets), MaxSuppressionSets)
	for _, s := range f.c.SuppressionSets {
		wrong := f.entry(joinPath("suppression_sets", s.Name), &s)
		if s.Name == "" || len(s.Name) > MaxSetNameBytes {
			wrong("", fmt.Errorf("is no name of a set, want 1 to %d bytes", MaxSetNameBytes))
		}
		if reason, ok := mail.ParseSuppressReason(s.Reason); !ok || !reason.Ends() {
			wrong("reason", fmt.Errorf("is %q, want bad_domain, manual or hard_bounce", s.Reason))
		}
		if s.Redis != "" {
			wrong("redis", checkRedis(s.Redis, false))
		}
	}
}
