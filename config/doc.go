// Package config reads what an operator has set. Four sources, each stronger
// than the one before: the defaults, a YAML file, the environment, the flags
// of the command line.
//
// Everything hangs on the struct Config: its tags name each setting's key,
// environment variable, flag and explanation, and the decoder, the flags, the
// help and the sample that `sluice config` prints are read off them. So a
// setting exists in all places or in none.
//
// A word that is not known is an error, wherever it stands, and never passed
// over: a misspelt `dedup:` that is silently ignored doubles rows for months.
// The error names the nearest known word and the place.
package config
