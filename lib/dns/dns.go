package dns

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Kind is a type of records.
type Kind dnsmessage.Type

// The kinds that can be asked for.
const (
	A    = Kind(dnsmessage.TypeA)
	AAAA = Kind(dnsmessage.TypeAAAA)
	MX   = Kind(dnsmessage.TypeMX)
	TXT  = Kind(dnsmessage.TypeTXT)
)

// String returns the kind's word.
func (k Kind) String() string { return strings.TrimPrefix(dnsmessage.Type(k).String(), "Type") }

// Status says whether there are records.
type Status byte

// The statuses.
const (
	Found  Status = 1
	NoData Status = 2 // the name is there, and has no such records
	NoName Status = 3 // there is no such name, or what it is an alias of is not there
)

// Answer is what a resolver says of a name. Its texts are what a stranger has
// published: any octets.
type Answer struct {
	Status  Status
	Aliases []string // the names that the name leads to by CNAME, in order
	TTL     uint32   // in seconds, the least of all records

	Addresses []netip.Addr // of A and AAAA
	Texts     []string     // of TXT: each record's strings in one
	Mailers   []Mailer     // of MX, the preferred first
}

// Mailer is a server that takes mail for a domain.
type Mailer struct {
	Host       string // without a dot at its end; empty: it takes none (RFC 7505)
	Preference uint16
}
