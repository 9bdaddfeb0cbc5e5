// Package step decides what becomes of people in a journey. It is a function of a
// version, some people and a time, and does no I/O. What moves people in earnest and
// the simulator both call it.
package step
