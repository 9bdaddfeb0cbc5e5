// Package profile is what is known of one user, and how it changes. It has
// attributes and their operators, counts of events, money spent, and consent.
// It also merges two profiles that turn out to be one person.
//
// A profile is kept as JSON text, and its values stay the text that they came
// as. So no conversion loses anything, people can read and query the column,
// and a change touches only what it changes. A value is brought into one form
// when it comes in (canonical.go), so that two values are equal when their
// texts are.
//
// Nothing here does I/O or looks at a clock. Changes come from the log, so they
// were checked (Check) when they were accepted and cannot fail later. What
// cannot be applied, because a text cannot be added to, changes nothing.
package profile
