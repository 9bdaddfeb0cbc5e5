package profile

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/lib/timetext"
)

// field is a standard attribute: how its values are brought into one form, and
// what they are, for the error.
type field struct {
	normal func(jsonscan.Value) (raw string, fits bool)
	want   string
}

// standard are the standard attributes. What is not one of them is custom.
var standard = map[string]field{
	fieldEmail:                     {normal(NormalEmail), "an e-mail address"},
	fieldPhone:                     {normal(NormalPhone), "a number as E.164 writes it"},
	"first_name":                   {text, aText},
	"last_name":                    {text, aText},
	"home_city":                    {text, aText},
	"facebook":                     {textOrObject, aText},
	"twitter":                      {textOrObject, aText},
	"image_url":                    {textOf(maxLongRunes), "a text of at most 2000 characters"},
	"country":                      {country, aText},
	"language":                     {languageCode, aText},
	"time_zone":                    {timeZone, "a name of the IANA database, as Europe/Vienna"},
	"dob":                          {date, "a date, as 1990-12-31"},
	"gender":                       {oneOf("M", "F", "O", "N", "P"), "M, F, O, N, P or null"},
	"email_subscribe":              {subscription, stateWords},
	"push_subscribe":               {subscription, stateWords},
	groupsField:                    {groups, "a list of at most 200 objects with subscription_group_id, of at most 255 characters, and subscription_state"},
	"current_location":             {location, "an object with longitude and latitude"},
	"push_tokens":                  {tokens, "a list of at most 20 objects with app_id and token"},
	"email_open_tracking_disabled": {boolean, aBoolean}, "email_click_tracking_disabled": {boolean, aBoolean},
	"date_of_first_session": {moment, aTime}, "date_of_last_session": {moment, aTime},
	"marked_email_as_spam_at": {moment, aTime},
}

const (
	aText        = "a text of at most 255 characters"
	aBoolean     = "true or false"
	aTime        = "a time, as 2026-01-31T10:20:30Z"
	optedIn      = "opted_in"
	stateWords   = "opted_in, subscribed or unsubscribed"
	maxLongRunes = 2000
)

func textOf(most int) func(jsonscan.Value) (string, bool) {
	return func(v jsonscan.Value) (string, bool) { return v.Raw, v.Kind == jsonscan.String && runes(v) <= most }
}

var text = textOf(MaxNameRunes)

func textOrObject(v jsonscan.Value) (string, bool) {
	if v.Kind == jsonscan.Object {
		return v.Raw, len(v.Raw) <= MaxValueBytes
	}
	return text(v)
}

func boolean(v jsonscan.Value) (string, bool) { return v.Raw, v.Kind == jsonscan.Bool }

func oneOf(words ...string) func(jsonscan.Value) (string, bool) {
	return func(v jsonscan.Value) (string, bool) {
		for _, word := range words {
			if v.Kind == jsonscan.String && v.Text() == word {
				return v.Raw, true
			}
		}
		return "", false
	}
}

var subscription = oneOf(optedIn, subscribed, unsubscribed)

// normal keeps a text in the form that f brings it into.
func normal(f func(string) (string, bool)) func(jsonscan.Value) (string, bool) {
	return func(v jsonscan.Value) (string, bool) {
		if v.Kind != jsonscan.String {
			return "", false
		}
		text, ok := f(v.Text())
		return Quoted(text), ok
	}
}

// NormalEmail brings an address into the form in which it is kept and compared, in
// lower case: Sluice and mailbox providers compare it so, whatever RFC 5321, 2.4
// allows. It also reports whether it is an address. RFC 5321, 4.1.2 applies, with the local
// part a dot-string, in UTF-8 if need be (RFC 6531, 3.3). A domain beyond ASCII
// is written as envelopes have it (A-labels, RFC 5890). So a suppression under
// one of the two names of a domain holds under the other.
func NormalEmail(address string) (string, bool) {
	address = strings.ToLower(strings.TrimSpace(address))
	if strings.ContainsFunc(address, func(r rune) bool { return r >= utf8.RuneSelf }) && len(address) <= 4*sluice.MaxEmailBytes {
		address = beyondASCII(address)
	}
	local, domain, ok := strings.Cut(address, "@")
	if !ok || local == "" || len(local) > 64 || len(address) > sluice.MaxEmailBytes || !utf8.ValidString(address) {
		return "", false
	}
	for atom := range strings.SplitSeq(local, ".") {
		if atom == "" || strings.ContainsFunc(atom, notInAtom) {
			return "", false
		}
	}
	labels := 0
	for label := range strings.SplitSeq(domain, ".") {
		labels++
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, notInLabel) {
			return "", false
		}
	}
	return address, labels > 1
}

// NormalAddress brings an address that mail can be sent to into the form in
// which it is suppressed and looked up. These are more than a user can have
// (mime.ParseAddress): a local part in quotes, a domain of one label. What
// NormalEmail takes keeps the same form, so what is known of a user's address
// holds back mail to it.
func NormalAddress(address string) (string, bool) {
	a, err := mime.ParseAddress(strings.TrimSpace(address))
	if err != nil {
		return NormalEmail(address) // of old, or from elsewhere
	}
	text := a.String()
	if normal, ok := NormalEmail(text); ok {
		return normal, true
	}
	small := strings.ToLower(text)
	if _, err := mime.ParseAddress(small); err != nil { // small letters may be longer, and have no room
		return text, true
	}
	return small, true
}

// beyondASCII gives the local part its normal form (RFC 6532, 3.1), and turns the
// domain into ASCII. One that cannot be stays as it is: nobody can be mailed there.
func beyondASCII(address string) string {
	local, domain, ok := strings.Cut(address, "@")
	if ascii, err := mime.DomainToASCII(domain); ok && err == nil {
		return norm.NFC.String(local) + "@" + ascii
	}
	return address
}

// notInAtom tells what an atom cannot have: RFC 5322, 3.2.3.
func notInAtom(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`()<>[]:;@\,"`, r) || r >= 0x80 && r < 0xa0
}

func notInLabel(r rune) bool {
	return r < 0x80 && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') || r >= 0x80 && r < 0xa0
}

// NormalPhone brings a number into the form in which it is kept and compared: as
// E.164 writes it, with its plus.
func NormalPhone(n string) (string, bool) {
	n = strings.NewReplacer(" ", "", "-", "", "(", "", ")", "", ".", "").Replace(n)
	n = strings.TrimPrefix(n, "+")
	if len(n) < 3 || len(n) > 15 || n[0] == '0' || strings.Trim(n, "0123456789") != "" {
		return "", false
	}
	return "+" + n, true
}

func date(v jsonscan.Value) (string, bool) {
	_, err := time.Parse(time.DateOnly, v.Text())
	return v.Raw, v.Kind == jsonscan.String && err == nil
}

// timeForm is how a time is written: as Braze's exports have it.
const timeForm = "2006-01-02T15:04:05.000Z"

// TimeText writes a time as exports, the feed and the properties of events have it.
func TimeText(millis int64) string { return time.UnixMilli(millis).UTC().Format(timeForm) }

func moment(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.String && v.Kind != jsonscan.Number {
		return "", false
	}
	ms, err := timetext.Parse(v.Text(), v.Kind == jsonscan.String)
	return Quoted(TimeText(ms)), err == nil
}

// zones are the zones that were asked for: to load one is to read a file.
var zones struct {
	sync.RWMutex
	named map[string]*time.Location
}

// maxZones bounds the names that are remembered: the database has some 600, but a file
// has more names than one (Europe//Vienna). maxZoneBytes bounds such a name.
const (
	maxZones     = 1024
	maxZoneBytes = 64
)

// Zone returns a zone of the IANA database, nil for a name that is none. Such a name is
// remembered too: a million users may have it.
func Zone(name string) *time.Location {
	if name == "" || name == "Local" {
		return nil
	}
	zones.RLock()
	zone, ok := zones.named[name]
	zones.RUnlock()
	if ok {
		return zone
	}
	if loaded, err := time.LoadLocation(name); err == nil {
		zone = loaded
	}
	if len(name) > maxZoneBytes {
		return zone
	}
	zones.Lock()
	defer zones.Unlock()
	if zones.named == nil || len(zones.named) >= maxZones {
		zones.named = make(map[string]*time.Location)
	}
	zones.named[strings.Clone(name)] = zone
	return zone
}

// timeZone keeps a name of the IANA database. A name of Ruby on Rails becomes one.
func timeZone(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.String {
		return "", false
	}
	if zone, ok := railsZones()[v.Text()]; ok && Zone(v.Text()) == nil {
		return Quoted(zone), true
	}
	return v.Raw, Zone(v.Text()) != nil
}

// country keeps the two letters of ISO 3166-1; its three letters, its number
// and the English name are understood.
func country(v jsonscan.Value) (string, bool) {
	return coded(v, func() map[string]string { return spellings().countries }, countryCode)
}

// languageCode keeps the two letters of ISO 639-1.
func languageCode(v jsonscan.Value) (string, bool) {
	return coded(v, func() map[string]string { return spellings().languages }, baseCode)
}

// coded is the code of a word, spelt out or in a way that read knows. What is none
// is nothing.
func coded(v jsonscan.Value, known func() map[string]string, read func(string) (string, bool)) (string, bool) {
	if v.Kind != jsonscan.String {
		return "", false
	}
	word := strings.TrimSpace(v.Text())
	if code, ok := known()[strings.ToLower(word)]; ok {
		return code, true
	}
	if code, ok := read(word); ok {
		return Quoted(code), true
	}
	return "null", true
}

func countryCode(word string) (string, bool) {
	r, err := language.ParseRegion(word)
	if err != nil || !r.IsCountry() {
		return "", false
	}
	return r.Canonicalize().String(), true
}

func baseCode(word string) (string, bool) {
	tag, err := language.Parse(word)
	if err != nil {
		return "", false
	}
	base, sure := tag.Base()
	return base.String(), sure != language.No && len(base.String()) == 2
}

// names are English names and two letters, in lower case, and the codes they
// stand for, as JSON.
type names struct{ countries, languages map[string]string }

// spellings is made when it is first asked for: it takes some milliseconds.
var spellings = sync.OnceValue(func() names {
	n := names{map[string]string{}, map[string]string{}}
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			code := string([]rune{a, b})
			if short, ok := countryCode(code); ok {
				n.countries[code] = Quoted(short)
			}
			if short, ok := baseCode(code); ok {
				n.languages[code] = Quoted(short)
			}
			if r, err := language.ParseRegion(code); err == nil && r.IsCountry() && r.Canonicalize().String() == strings.ToUpper(code) {
				called(n.countries, display.English.Regions().Name(r), strings.ToUpper(code))
			}
			if base, err := language.ParseBase(code); err == nil && base.String() == code {
				called(n.languages, display.English.Languages().Name(base), code)
			}
		}
	}
	return n
})

// called notes the name of a code. The library has no name for some codes that were
// withdrawn (YU): an empty text stands for none of them.
func called(known map[string]string, name, code string) {
	if name != "" {
		known[strings.ToLower(name)] = Quoted(code)
	}
}

// location keeps the two numbers, longitude first.
func location(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.Object {
		return "", false
	}
	long, lat := memberOf(v, "longitude"), memberOf(v, "latitude")
	x, errX := strconv.ParseFloat(long, 64)
	y, errY := strconv.ParseFloat(lat, 64)
	if errX != nil || errY != nil || !(x >= -180 && x <= 180) || !(y >= -90 && y <= 90) {
		return "", false
	}
	return `{"longitude":` + long + `,"latitude":` + lat + `}`, true
}

// tokens keeps app, token and device of each push token.
func tokens(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.Array {
		return "", false
	}
	all := elements(v.Raw)
	for i, token := range all {
		var kept Values
		for _, name := range []string{"app_id", "token", "device_id"} {
			raw := memberOf(token, name)
			if raw == "" && name == "device_id" {
				continue
			}
			if kindOf(raw) != jsonscan.String {
				return "", false
			}
			kept = append(kept, Value{name, raw})
		}
		all[i].Raw = string(appendValues(nil, kept))
	}
	return string(appendArray(nil, all)), len(all) <= maxPushTokens
}

// groups checks a list of states in subscription groups.
func groups(v jsonscan.Value) (string, bool) {
	if v.Kind != jsonscan.Array {
		return "", false
	}
	all := elements(v.Raw)
	for _, group := range all {
		state := memberOf(group, groupState)
		id := scanned(cmp.Or(memberOf(group, groupID), "null"))
		if id.Kind != jsonscan.String || !NameFits(id.Text()) || state != Quoted(subscribed) && state != Quoted(unsubscribed) {
			return "", false
		}
	}
	return v.Raw, len(all) <= MaxGroups
}

// Members of an element of subscription_groups.
const (
	groupID    = "subscription_group_id"
	groupState = "subscription_state"
)

// setGroups applies a list that groups has let pass.
func (p *Profile) setGroups(v jsonscan.Value, nowMillis int64) (changed bool) {
	for _, group := range elements(v.Raw) {
		id, err := jsonscan.Scan(memberOf(group, groupID))
		if err == nil && p.SetGroup(id.Text(), memberOf(group, groupState) == Quoted(subscribed), nowMillis) {
			changed = true
		}
	}
	return changed
}

// IsField reports whether a name is that of a standard attribute that Fields
// may have.
func IsField(name string) bool {
	_, ok := standard[name]
	return ok && name != groupsField
}

// IsStandard reports whether an attribute is a standard one.
func IsStandard(name string) bool {
	_, ok := standard[name]
	return ok
}

// StandardFields returns the names of the standard attributes, in their order.
func StandardFields() []string { return slices.Sorted(maps.Keys(standard)) }

// IsTextField reports whether the values of a standard attribute are texts.
func IsTextField(name string) bool {
	switch f, ok := standard[name]; {
	case !ok, f.want == aBoolean, name == groupsField, name == "current_location", name == "push_tokens":
		return false
	}
	return true
}
