package journey

// MaxIDBytes bounds the id of a journey, of a step, of a path.
const MaxIDBytes = 64

// ValidID reports whether a text can be the id of a journey, a step or a path: lower
// case letters, digits and hyphens, 1 to MaxIDBytes of them.
func ValidID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= MaxIDBytes
}

// What a journey is by its status.
const (
	StatusDraft    = "draft"    // no version was published
	StatusLive     = "live"     // people enter the last version
	StatusPaused   = "paused"   // nobody enters, and nobody gets mail of it
	StatusStopped  = "stopped"  // all who were inside have been taken out
	StatusArchived = "archived" // the same, and it is not listed any more
)
