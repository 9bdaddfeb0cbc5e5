package profile

import "sluice/lib/jsonscan"

// HasAddress reports whether mail to an address is mail to this user: it is the
// attribute email, in whatever spelling.
func (p *Profile) HasAddress(address string) bool {
	v, err := jsonscan.Scan(p.Fields.Get(fieldEmail))
	if err != nil || v.Kind != jsonscan.String {
		return false
	}
	own, ok := NormalAddress(v.Text())
	if !ok {
		return false
	}
	other, ok := NormalAddress(address)
	return ok && own == other
}
