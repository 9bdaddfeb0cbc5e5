// Package spool takes messages in, lets their sends wait by priority, has them
// attempted once, and says what has become of them.
//
// Intake makes sends of drafts and writes them to the logs: from then on they
// are accepted. Queuer moves them from the log to the lanes of their partition.
// Sender takes them from there, window by window, marks them, hands them to a
// transport, and records the results. What they hold in memory is a copy: the
// truth is the log, the lanes (flow.Lanes) and the ledger (mail.SendStore).
package spool
