// Package sluice holds the words of the engine: partitions, positions, batches and
// their items, events, errors, limits, ids and the clock. It imports the standard
// library only. The words of a domain are at the head of its wing: user, mail,
// and store with the contract that every database keeps.
//
// The one idea is hold, release as a batch, commit once: input is held where
// it arrives and leaves as a batch that never changes. A reader's position moves
// in the same atomic step as the effect of what it read.
package sluice
