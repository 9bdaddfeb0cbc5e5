// Package chaos runs the real program against real servers, and kills, stops
// and cuts whatever can be. Afterwards it counts: rows == elements pushed, none
// twice, everything drained, and a fresh event passes. It holds tests only.
package chaos
