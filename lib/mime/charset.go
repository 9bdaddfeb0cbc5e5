package mime

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

// UTF8 reads a body of a charset, by the names that mail and browsers have for it. An error
// says that the charset is not known. It is also what a mime.WordDecoder asks.
func UTF8(charset string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "", "utf-8", "us-ascii":
		return body, nil
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		return nil, fmt.Errorf("its charset %q is not known", charset)
	}
	return e.NewDecoder().Reader(body), nil
}
