// Package chaos runs the real program against real servers, kills, stops and
// cuts whatever can be, and counts afterwards: rows == elements pushed, none
// twice, everything drained, and a fresh event passes. It holds tests only.
package chaos
