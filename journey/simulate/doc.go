// Package simulate carries a journey out over people who are handed in, under a clock
// of its own: a month takes seconds. It calls package step, as the engine does, and
// keeps all in memory. Nothing is mailed and nothing is stored.
//
// What people do is handed in too, or made up (Habit). What they do with the mail of the
// journey is made up (Reactions). Its triggers are told, and rules find it. Rules that
// ask about other journeys and their mail find nothing. Caps count the mail of this
// journey alone.
package simulate
