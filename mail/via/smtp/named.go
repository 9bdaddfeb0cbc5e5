package smtp

import (
	"bytes"
	"slices"
	"strings"

	"sluice/mail"
)

// named returns the envelopes with the header that names their sends, at the top: no
// signature covers it. A message that has such a header keeps its own.
func (r *Relay) named(envelopes []mail.Envelope) []mail.Envelope {
	if r.opt.Header == nil {
		return envelopes
	}
	all := slices.Clone(envelopes)
	for i := range all {
		line := r.opt.Header(all[i].Send)
		name, _, _ := strings.Cut(line, ":")
		if hasField(all[i].Content, name) {
			continue
		}
		all[i].Content = slices.Concat([]byte(line), []byte("\r\n"), all[i].Content)
	}
	return all
}

// hasField reports whether the head of a message has a field (RFC 5322, 2.2).
func hasField(content []byte, name string) bool {
	for len(content) > 0 && content[0] != '\r' {
		line, rest, _ := bytes.Cut(content, []byte("\r\n"))
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return true
		}
		content = rest
	}
	return false
}
