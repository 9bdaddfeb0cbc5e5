//go:build !linux

package set

import "sync/atomic"

// makeWords makes so many words.
func makeWords(n int) []atomic.Uint64 { return make([]atomic.Uint64, n) }
