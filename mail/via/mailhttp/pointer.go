package mailhttp

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

var badEscape = regexp.MustCompile(`~([^01]|$)`)

// parsePointer reads a JSON pointer (RFC 6901), nil of an empty text.
func parsePointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' || badEscape.MatchString(text) {
		return nil, errors.New("is no JSON pointer, want /KEY/KEY, of a list /0 (RFC 6901)")
	}
	keys := strings.Split(text[1:], "/")
	for i, k := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(k, "~1", "/"), "~0", "~") // in this order (RFC 6901, 4)
	}
	return keys, nil
}

// step returns what a key shows, nil if nothing.
func step(v any, key string) any {
	switch x := v.(type) {
	case map[string]any:
		return x[key]
	case []any:
		if i, err := strconv.ParseUint(key, 10, 31); err == nil && int(i) < len(x) && strconv.FormatUint(i, 10) == key {
			return x[i]
		}
	}
	return nil
}
