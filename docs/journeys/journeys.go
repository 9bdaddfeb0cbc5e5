// Package journeys has the three examples of docs/journeys.md, with their templates: the
// demo shows them.
package journeys

import "embed"

// Files are NAME.yaml, a journey each, and NAME.mail, a template each.
//
//go:embed *.yaml *.mail
var Files embed.FS
