//go:build !pretend_next

package sluice

// PretendNext is set in builds for tests of upgrades, which behave as a program of
// the next version does.
const PretendNext = false
