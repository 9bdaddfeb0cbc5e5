// Package web is the dashboard: its sources, which Node builds, and what it builds of
// them, which is committed and becomes part of the program.
package web

import "embed"

// Dist are the built files: dist/index.html, and dist/assets with names that change with
// their contents.
//
//go:embed all:dist
var Dist embed.FS
