package journey

import (
	"time"

	"sluice/mail"
)

// Bounds of caps.
const (
	MaxCaps      = 16
	MinCapWindow = time.Minute
	MaxCapWindow = 30 * 24 * time.Hour
)

// Cap bounds how much mail a person gets over all journeys. A marketing message of a
// journey that a cap counts, and that would be one too many, is left out.
type Cap struct {
	Name     string
	Tag      string     // it counts mail that has it; empty: any
	Class    mail.Class // it counts mail of it; 0: any
	Messages int        // at most so many in a Window
	Window   time.Duration
}

// Counts reports whether a cap counts mail of a class with some tags (separated by
// commas).
func (c *Cap) Counts(class mail.Class, tags string) bool {
	return (c.Class == 0 || c.Class == class) && (c.Tag == "" || mail.HasTag(tags, c.Tag))
}

// How many mails of a partition may wait when journeys make more for a lane: CrowdedLaneMails
// in the lane itself, or in the log before it, and CrowdedApartMails in its sublanes. These
// are of a domain or a route that takes none for hours, perhaps, while others do: so they
// have more room, 1 MB or less. As many may bear a tag that is stopped.
const (
	CrowdedLaneMails  = 256
	CrowdedApartMails = 2048
)

// Crowded reports whether so much waits in a lane that journeys make no more mails with
// these tags, separated by commas.
func Crowded(in mail.InLane, tags string) bool {
	if in.Own >= CrowdedLaneMails || in.Apart >= CrowdedApartMails {
		return true
	}
	for tag, n := range in.Tags {
		if n >= CrowdedApartMails && mail.HasTag(tags, tag) {
			return true
		}
	}
	return false
}
