// Package transfer moves data in and out as files: events as lines (events.go),
// and a whole deployment as an archive
// (archive.go), written (backup.go) and put back (restore.go). It speaks to
// Redis through package flow and to the database through the contracts of package store.
package transfer
