// Package sluice holds the words of the domain: events, batches, positions,
// cursors, dead letters, and the contract every store keeps. It imports the
// standard library only, and nothing of the program; each technology has one
// package of its own that imports this one.
//
// The one idea is hold, release as a batch, commit once: input is held where
// it arrives and leaves as a batch that never changes. A reader's position moves
// in the same atomic step as the effect of what it read.
package sluice
