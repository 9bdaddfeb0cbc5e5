// Package simulate carries a journey out over people who are handed in, under a clock
// of its own: a month takes seconds. It calls package step, as the engine does, and
// keeps all in memory. Nothing is mailed and nothing is stored.
//
// What people do is handed in too, or made up (Habit). What they do with the mail of the
// journey is made up (Reactions): its triggers are told. Rules that ask what somebody did
// with mail before find nothing. Frequency caps are not applied.
package simulate
