package mime

import (
	"io"
	stdmime "mime"
	"net/mail"
	"slices"
)

// authors reads lists of addresses as senders write them: with comments, groups
// (RFC 6854) and names in any encoding, which are skipped.
var authors = mail.AddressParser{WordDecoder: &stdmime.WordDecoder{
	CharsetReader: func(_ string, input io.Reader) (io.Reader, error) { return input, nil },
}}

// AuthorDomains returns the domains of the authors of a message that is ready
// to go. The authors are in its header From: one or several (RFC 5322, 3.6.2),
// each domain once. The author that answers for a mail must be readable: the
// error, an *Error, says why one is not.
func AuthorDomains(message []byte) ([]string, error) {
	value, ok := fieldOf(message, "From")
	if !ok {
		return nil, wrong("headers.From", "is missing: each message needs one (RFC 5322, 3.6)")
	}
	text := unfold(value)
	all, err := authors.ParseList(text)
	if err != nil || len(all) == 0 {
		return nil, wrong("headers.From", "%q cannot be read, want the addresses of the mail's authors, with commas between them (RFC 5322, 3.6.2)", clip(text))
	}
	var found []string
	for _, a := range all {
		domain, err := parseDomain(DomainOf(a.Address)) // its local part is without quotes
		if err != nil {
			return nil, wrong("headers.From", "%s", err)
		}
		if !slices.Contains(found, domain) {
			found = append(found, domain)
		}
	}
	return found, nil
}
