// Package profile is what is known of one user, and how it changes: attributes
// and their operators, how often what happened, money spent, consent, and what
// becomes of two profiles that turn out to be one person.
//
// A profile is kept as JSON text, and its values stay the text that they came
// as: nothing is lost in a conversion, people can read and query the column,
// and a change touches only what it changes. A value is brought into one form
// when it comes in (canonical.go), so that two values are equal when their
// texts are.
//
// Nothing here does I/O or looks at a clock. Changes come from the log, so
// they have been checked (Check) when they were accepted and cannot fail
// later: what cannot be applied, because a text cannot be added to, changes
// nothing.
package profile
