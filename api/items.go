package api

import (
	"mime"
	"net/http"
	"strings"

	"sluice"
	"sluice/ingest"
	"sluice/lib/jsonscan"
)

// form is how the items stand in a body.
type form int

const (
	formJSON  form = iota // one object, or an array of them: the first byte says which
	formLines             // one a line (NDJSON)
)

// formOf tells the form by the Content-Type. What says nothing in particular
// (curl's own, text/plain, none) is taken for JSON, or for lines if split sees that it is.
func formOf(contentType string) (form, error) {
	if contentType == "" {
		return formJSON, nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		switch kind {
		case "application/json", "text/json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream":
			return formJSON, nil
		case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines":
			return formLines, nil
		}
	}
	return 0, &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid,
		"Content-Type is not understood; send application/json (an object or an array) or application/x-ndjson (an object a line)")}
}

// split cuts a body into its items, without looking into them. Whether each is
// an event is found out one by one, so that one bad item does not cost the
// others. Only what makes it unclear where items end is refused as a whole. The
// items are appended to `items` and share the body's memory.
func split(body string, f form, items []string) ([]string, error) {
	if f == formLines {
		return splitLines(body, items)
	}
	at := jsonscan.Space(body, 0)
	if at == len(body) {
		return nil, refusal(sluice.CodeInvalid, "the body is empty; send an event, an array of events, or one event a line as application/x-ndjson")
	}
	if body[at] == '[' {
		return splitArray(body, at+1, items)
	}
	if isLines(body[at:]) {
		return splitLines(body, items)
	}
	return append(items, strings.Trim(body, " \t\r\n")), nil
}

// isLines reports whether a body that begins with an object has one a line. No JSON has
// an object that ends with its line, and another that begins behind it.
func isLines(body string) bool {
	first, rest, more := strings.Cut(body, "\n")
	return more && strings.HasSuffix(strings.TrimRight(first, " \t\r"), "}") && strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "{")
}

func splitLines(body string, items []string) ([]string, error) {
	for line := range strings.SplitSeq(body, "\n") {
		if line = strings.Trim(line, " \t\r"); line == "" {
			continue
		}
		if len(items) == ingest.MaxRequestItems {
			return nil, errTooMany()
		}
		items = append(items, line)
	}
	if len(items) == 0 {
		return nil, refusal(sluice.CodeInvalid, "the body has no line with an event")
	}
	return items, nil
}

func errTooMany() error {
	return refusal(sluice.CodeTooLarge, "more than %d items; send them in several requests", ingest.MaxRequestItems)
}

// splitArray cuts an array, from behind its bracket, at the commas outside of
// strings, objects and arrays.
func splitArray(s string, i int, items []string) ([]string, error) {
	if i = jsonscan.Space(s, i); i < len(s) && s[i] == ']' {
		return items, checkEnd(s, i+1)
	}
	for {
		start := i
		i = endOfItem(s, i)
		if i == len(s) {
			return nil, refusal(sluice.CodeInvalid, "the array is cut off behind item %d, or a quote or bracket in it is not closed", len(items))
		}
		item := strings.Trim(s[start:i], " \t\r\n")
		if item == "" {
			return nil, refusal(sluice.CodeInvalid, "the array has no item %d: a comma too many", len(items))
		}
		if len(items) == ingest.MaxRequestItems {
			return nil, errTooMany()
		}
		items = append(items, item)
		switch s[i] {
		case ']':
			return items, checkEnd(s, i+1)
		case '}':
			return nil, refusal(sluice.CodeInvalid, "a brace is closed behind item %d that was not opened", len(items)-1)
		}
		i++
	}
}

// endOfItem returns where the item ends that begins at s[i]: at a comma or a
// closing bracket outside of it; len(s) if there is none.
func endOfItem(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			if i = endOfString(s, i+1); i == len(s) {
				return i
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(s)
}

// endOfString returns where the quote is that ends a string.
func endOfString(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case '"':
			return i
		case '\\':
			i++
		}
		i++
	}
	return len(s)
}

func checkEnd(s string, i int) error {
	if jsonscan.Space(s, i) != len(s) {
		return refusal(sluice.CodeInvalid, "something follows the array")
	}
	return nil
}
