// Package simulate carries a journey out over people who are handed in, under a clock
// of its own: a month takes seconds. It calls package step, as the engine does, and
// keeps all in memory. Nothing is mailed and nothing is stored.
//
// What people do is handed in too, or made up (Habits). What they do with mail is not
// among it: journeys have no facts about that yet.
package simulate
