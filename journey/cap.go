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

// CrowdedLaneMails is how many mails of a partition may wait in a lane, or in the log before
// it, when journeys make more for it.
const CrowdedLaneMails = 256
