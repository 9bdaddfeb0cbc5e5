package set

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	wordBytes      = 8
	largePageBytes = 2 << 20
)

// makeWords makes so many words. They are in large pages where they fill some
// and the system has them (madvise(2), MADV_HUGEPAGE). A processor knows the
// places of few pages, and a look anywhere in 13 MB of small ones waits twice.
func makeWords(n int) []atomic.Uint64 {
	if n*wordBytes < largePageBytes {
		return make([]atomic.Uint64, n)
	}
	words := make([]atomic.Uint64, n+largePageBytes/wordBytes)
	start := unsafe.Pointer(&words[0])
	words = words[-uintptr(start)%largePageBytes/wordBytes:][:n:n]
	// Memory of small pages is as good, but for the time: no error is of use.
	_ = syscall.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n*wordBytes), syscall.MADV_HUGEPAGE)
	return words
}
