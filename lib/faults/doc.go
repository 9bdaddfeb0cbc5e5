// Package faults breaks things on purpose, for tests: a failpoint (Hit) kills,
// stops or fails the program at a chosen line.
//
// Failpoints are compiled into the program always, since a program built
// otherwise would not be the one that runs in earnest. Unset, one costs a
// single atomic load. They are armed through the environment variable
// SLUICE_FAILPOINT alone (or Arm, inside a test), and a program that starts
// with it set logs a warning.
package faults
