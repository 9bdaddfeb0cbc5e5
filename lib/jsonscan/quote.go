package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal, but <, > and & stand as they are: escaped they have six bytes
// each, and what is kept of texts is bounded by bytes.
func Marshal(v any) ([]byte, error) { return AppendMarshal(nil, v) }

// AppendMarshal is Marshal that appends. With an error it returns dst as it was.
func AppendMarshal(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// AppendQuoted appends a text as a JSON string (RFC 8259, 7). The text is UTF-8: its bytes
// are copied, but for quotes, backslashes and control characters.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}
