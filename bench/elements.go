package bench

import (
	"strconv"
	"time"
)

// elements are the events of a bench. The i-th is the same in every run, on
// every machine, and may be made alone and in any order. They are like those
// that an e-mail service provider's servers push: 170 to 190 bytes of JSON,
// with ids in the order of arrival. Their times follow that order within two
// seconds.
type elements struct {
	first, count int64 // indexes first to first+count-1; may be negative
}

// element is one event before it is written down.
type element struct {
	id         int64
	event      string // the producer's word
	stored     string // the word of the standard table for it
	user       uint64
	timeMillis int64
	ip         [4]byte
	ua         string
	campaign   uint64
}

const (
	elementSeed = 20180314
	idBase      = 500_000_000 // with nine digits before and after it

	// arrivalsPerMilli is how fast their time goes: 30,000 a second.
	arrivalsPerMilli = 30
	jitterMillis     = 2000
	elementUsers     = 200_000
)

var elementsBegin = time.Date(2018, 3, 14, 9, 0, 0, 0, time.UTC).UnixMilli()

// kinds are the events by their share: one in len(kinds) each.
var kinds = func() (all [100][2]string) {
	i := 0
	for _, k := range []struct {
		event, stored string
		percent       int
	}{
		{"delivered", "delivered", 44}, {"open", "opened", 34}, {"click", "clicked", 9}, {"deferred", "deferred", 6},
		{"bounce", "bounced", 4}, {"unsubscribe", "unsubscribed", 2}, {"spam", "complained", 1},
	} {
		for range k.percent {
			all[i] = [2]string{k.event, k.stored}
			i++
		}
	}
	return all
}()

var userAgents = [...]string{
	"Mozilla/5.0 (iPhone; iOS 11_2)", "Mozilla/5.0 (Windows NT 10.0)", "Mozilla/5.0 (Linux; Android 8)",
	"GoogleImageProxy/1.0 (Gecko)", "Mozilla/5.0 (Macintosh; 10_13)", "YahooMailProxy/2.0 (+https)",
}

var mailDomains = [...]string{"example.com", "example.net", "example.org", "mail.example"}

var givenNames = [...]string{"anna", "jonas", "maria", "lukas", "clara", "felix", "paula", "simon"}

// mix is splitmix64's output function: well spread bits of a number.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at makes the event of an index.
func at(i int64) element {
	r := mix(uint64(i) ^ elementSeed<<32)
	s := mix(r)
	kind := kinds[r%100]
	return element{
		id: idBase + i, event: kind[0], stored: kind[1],
		user:       r >> 8 % elementUsers,
		timeMillis: elementsBegin + floorDiv(i, arrivalsPerMilli) + int64(s%jitterMillis),
		ip:         [4]byte{203, 0, 113, byte(s >> 16)},
		ua:         userAgents[s>>32%uint64(len(userAgents))],
		campaign:   s >> 40 % 40,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (e *element) appendEmail(dst []byte) []byte {
	dst = append(append(dst, givenNames[e.user%uint64(len(givenNames))]...), '.')
	dst = append(strconv.AppendUint(dst, e.user, 10), '@')
	return append(dst, mailDomains[e.user>>3%uint64(len(mailDomains))]...)
}

// appendRest appends the members that no column of their own waits for.
func (e *element) appendRest(dst []byte) []byte {
	dst = append(dst, `"ip":"`...)
	for i, b := range e.ip {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	dst = append(append(append(dst, `","ua":"`...), e.ua...), `","campaign":"spring-`...)
	return append(strconv.AppendUint(dst, 10+e.campaign, 10), '"')
}

// appendJSON appends the element as its producer writes it.
func (e *element) appendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"id":`...), e.id, 10)
	dst = append(append(append(dst, `,"event":"`...), e.event...), `","email":"`...)
	dst = strconv.AppendInt(append(e.appendEmail(dst), `","timestamp":`...), e.timeMillis, 10)
	return append(e.appendRest(append(dst, ',')), '}')
}
