// Package mail holds the words of mail: sends, outcomes and their items, classes and
// priorities, the ledger, templates, suppressions, ways out (Transport), and what is
// asked of the store that keeps them. The packages below it do the work: spool hands
// mail to routes, route chooses one, via speaks to the receiver.
package mail
