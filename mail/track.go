package mail

import (
	"bytes"
	"strings"
)

// Track says what is to be known of a mail after it has left.
type Track byte

// What may be known. The bits stand in contents: never change one.
const (
	TrackOpens  Track = 1 // it gets a pixel
	TrackClicks Track = 2 // its links lead by way of us
	TrackAll          = TrackOpens | TrackClicks
)

var trackWords = [...]struct {
	bit  Track
	word string
}{{TrackOpens, "opens"}, {TrackClicks, "clicks"}}

// String returns its words, as ParseTrack reads them: "opens, clicks".
func (t Track) String() string {
	var words []string
	for _, w := range trackWords {
		if t&w.bit != 0 {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}

// ParseTrack reads words: opens, clicks, both with a comma between them; true for
// both, false for neither.
func ParseTrack(text string) (t Track, ok bool) {
	switch text = strings.ToLower(strings.TrimSpace(text)); text {
	case "true":
		return TrackAll, true
	case "false":
		return 0, true
	}
	for word := range strings.SplitSeq(text, ",") {
		before := t
		for _, w := range trackWords {
			if strings.TrimSpace(word) == w.word {
				t |= w.bit
			}
		}
		if t == before {
			return 0, false
		}
	}
	return t, true
}

// A content of the form ContentMIME says in its first header what is to be known of
// it; without that it is nothing. The header does not go out. Nobody else can put
// it there: what is handed in loses its headers X-Sluice-* or is refused.
const trackHeader = "X-Sluice-Track: "

// WithTrack returns a content of the form ContentMIME that says what is to be known.
func WithTrack(content []byte, t Track) []byte {
	if t == 0 {
		return content
	}
	b := append(make([]byte, 0, len(content)+64), trackHeader...)
	return append(append(append(b, t.String()...), "\r\n"...), content...)
}

// CutTrack returns what is to be known of a content of the form ContentMIME, and
// the message as it goes out.
func CutTrack(content []byte) (Track, []byte) {
	rest, found := bytes.CutPrefix(content, []byte(trackHeader))
	if !found {
		return 0, content
	}
	line, message, _ := bytes.Cut(rest, []byte("\r\n"))
	t, _ := ParseTrack(string(line))
	return t, message
}
