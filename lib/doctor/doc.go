// Package doctor names what `sluice doctor` looks at, and what it finds. Nothing here
// looks: each package that speaks a technology does, and reports in these words.
package doctor
