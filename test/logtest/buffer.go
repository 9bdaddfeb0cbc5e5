// Package logtest is where tests have a program write what they read meanwhile.
package logtest

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer collects output that is read while it is written. Its zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Warnings returns the last lines, most at most, of the text log that was written which are
// warnings or errors: why a test failed.
func (b *Buffer) Warnings(most int) string {
	var lines []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}
