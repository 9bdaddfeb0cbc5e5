package domain

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/lib/dns"
	"sluice/lib/doctor"
	"sluice/mail/dkim"
)

// Bounds of one look at a domain.
const (
	maxQuestions = 150 // to DNS
	maxHomes     = 5   // MX hosts that are looked up
)

// Way is a way out for mail, as far as DNS has to know of it.
type Way struct {
	Name string

	// Host is the mail server that mail is handed to; empty: it goes by HTTP, or
	// nobody knows.
	Host string

	// Include is what the provider wants included in SPF records; empty: it is no
	// provider that is known.
	Include string

	// Foreign: mail leaves with an envelope of the provider's own domain, unless
	// that is set up otherwise. SPF is about that domain then.
	Foreign bool

	// Bounces is the domain of its return paths, in lower case; empty: mail leaves with
	// the sender's own envelope.
	Bounces string

	// Signs: the provider may sign for the domain, with keys that are not here.
	Signs bool
}

// Checker looks at domains. It changes nothing, and keeps nothing.
type Checker struct {
	DNS *dns.Resolver

	// Signers has the keys that mail is signed with. KeysErr says why they are not
	// known.
	Signers *dkim.Ring
	KeysErr error

	Ways []Way // by which mail leaves; none: nobody knows

	// Links is with what links in tracked mails begin, a URL; empty: there are none.
	Links string
}

// look is one look at one domain.
type look struct {
	*Checker
	e      doctor.Examination
	domain string
	asked  int
	known  map[question]known

	spf     proof
	dkim    proof
	returns proof        // of the domains of return paths
	signer  *dkim.Signer // of its mail; nil: nobody here
}

type question struct {
	name string
	kind dns.Kind
}

type known struct {
	answer dns.Answer
	err    error
}

// proof is whether something lets receivers know that mail is the domain's.
type proof byte

const (
	proofNone  proof = iota // it does not
	proofOpen               // it cannot be seen from here
	proofGiven              // it does
)

// Check looks at a domain: an ASCII name in lower case. It ends when ctx does.
func (c *Checker) Check(ctx context.Context, domain string) doctor.Examination {
	l := &look{Checker: c, domain: domain, known: map[question]known{}, e: doctor.Examination{Where: domain}}
	if !l.home(ctx) {
		return l.e
	}
	l.checkSPF(ctx)
	l.checkBounces(ctx)
	l.checkDKIM(ctx)
	l.checkDMARC(ctx)
	l.checkLinks(ctx)
	return l.e
}

// notSeenHere is said of what no look finds out, whatever DNS answers.
const notSeenHere = "cannot be seen from here"

var errQuestions = fmt.Errorf("it takes more than %d questions to DNS", maxQuestions)

// ask asks DNS, once for each record.
func (l *look) ask(ctx context.Context, name string, kind dns.Kind) (dns.Answer, error) {
	q := question{strings.ToLower(name), kind}
	if k, ok := l.known[q]; ok {
		return k.answer, k.err
	}
	if l.asked++; l.asked > maxQuestions {
		return dns.Answer{}, errQuestions
	}
	var k known
	k.answer, k.err = l.DNS.Ask(ctx, name, kind)
	l.known[q] = k
	return k.answer, k.err
}

// by says over which names an answer was found.
func by(a *dns.Answer) string {
	if len(a.Aliases) == 0 {
		return ""
	}
	return " (an alias of " + strings.Join(a.Aliases, ", of ") + ")"
}

// unaskedOthers marks the checks of what stands beside the domain's own records as not made.
func (l *look) unaskedOthers(err error) {
	if slices.ContainsFunc(l.Ways, func(w Way) bool { return w.Bounces != "" }) {
		l.e.Unknown(err, doctor.CheckDomainBounces)
	}
	if l.Links != "" {
		l.e.Unknown(err, doctor.CheckDomainLinks)
	}
}

// record is a TXT record as a zone file has it (RFC 1035, 5.1).
func record(name, text string) string {
	var b strings.Builder
	b.WriteString(name + ". IN TXT")
	for _, part := range dkim.RecordStrings(text) {
		b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(part) + `"`)
	}
	return b.String()
}

// home looks where mail to the domain goes: bounces come back there (RFC 5321,
// 5.1). false: DNS does not answer, and there is nothing else to be found out.
func (l *look) home(ctx context.Context) bool {
	const publish = "publish where mail to it goes, a host with addresses: "
	want := publish + l.domain + ". IN MX 10 mail." + l.domain + "."
	mx, err := l.ask(ctx, l.domain, dns.MX)
	if err != nil {
		l.e.Unknown(err, doctor.CheckDomainMX, doctor.CheckDomainSPF, doctor.CheckDomainDKIM, doctor.CheckDomainDMARC, doctor.CheckDomainAlignment)
		l.unaskedOthers(err)
		return false
	}
	switch mx.Status {
	case dns.NoName:
		if len(mx.Aliases) > 0 {
			l.e.Fail(doctor.CheckDomainMX, "point the CNAME at a name that is there, or publish records of its own", "it is an alias of %s, which is not there", mx.Aliases[len(mx.Aliases)-1])
		} else {
			l.e.Fail(doctor.CheckDomainMX, "register it, or send from a domain that is there; then "+want, "there is no such domain")
		}
	case dns.NoData:
		l.implicit(ctx, want)
	default:
		l.mailers(ctx, &mx, want)
	}
	return true
}

// addresses are those of a host; an alias that leads to it.
func (l *look) addresses(ctx context.Context, host string) (all []netip.Addr, aliases []string, err error) {
	for _, kind := range []dns.Kind{dns.A, dns.AAAA} {
		a, askErr := l.ask(ctx, host, kind)
		err = errors.Join(err, askErr)
		all = append(all, a.Addresses...)
		if len(a.Aliases) > 0 {
			aliases = a.Aliases
		}
	}
	if len(all) > 0 {
		err = nil
	}
	return all, aliases, err
}

// implicit is a domain without MX records: its own addresses count.
func (l *look) implicit(ctx context.Context, want string) {
	all, _, err := l.addresses(ctx, l.domain)
	switch {
	case err != nil:
		l.e.Unknown(err, doctor.CheckDomainMX)
	case len(all) == 0:
		l.e.Fail(doctor.CheckDomainMX, want, "it has neither MX records nor an address: bounces and replies come back to nobody, and many receivers refuse mail from it")
	default:
		l.e.Fine(doctor.CheckDomainMX, "it has no MX records; mail to it goes to its own address %s", all[0])
	}
}

// mailers looks at the hosts of MX records.
func (l *look) mailers(ctx context.Context, mx *dns.Answer, want string) {
	var good, bad, aliases []string
	for _, m := range mx.Mailers[:min(maxHomes, len(mx.Mailers))] {
		if m.Host == "" { // RFC 7505
			l.e.Fail(doctor.CheckDomainMX, "send from a domain that takes mail, or "+want+" in place of the one there is", "its MX record says that it takes no mail: receivers refuse what comes from it (RFC 7505, 4.2)")
			return
		}
		all, names, err := l.addresses(ctx, m.Host)
		switch {
		case err != nil:
			l.e.Unknown(err, doctor.CheckDomainMX)
			return
		case len(all) == 0:
			bad = append(bad, m.Host)
		default:
			good = append(good, m.Host)
		}
		if len(names) > 0 {
			aliases = append(aliases, m.Host)
		}
	}
	switch {
	case len(good) == 0:
		l.e.Fail(doctor.CheckDomainMX, "publish addresses (A, AAAA) of these hosts, or "+want, "no host of its MX records has an address: %s", strings.Join(bad, ", "))
	case len(bad) > 0:
		l.e.Warn(doctor.CheckDomainMX, "take them out of the MX records, or publish their addresses", "hosts of its MX records have no address: %s", strings.Join(bad, ", "))
	case len(aliases) > 0:
		l.e.Warn(doctor.CheckDomainMX, "name in the MX records what these are aliases of", "hosts of its MX records are aliases, which they must not be (RFC 5321, 5.1; RFC 2181, 10.3): %s", strings.Join(aliases, ", "))
	default:
		l.e.Fine(doctor.CheckDomainMX, "mail to it goes to %s%s", strings.Join(good, ", "), by(mx))
	}
}

// checkDKIM looks for the records of the keys that mail is signed with.
func (l *look) checkDKIM(ctx context.Context) {
	var keys []*dkim.Key
	if l.signer = l.Signers.For(l.domain); l.signer != nil {
		keys = l.signer.Keys()
	}
	signs := slices.ContainsFunc(l.Ways, func(w Way) bool { return w.Signs })
	switch {
	case l.KeysErr != nil:
		l.dkim = proofOpen
		l.e.Unknown(l.KeysErr, doctor.CheckDomainDKIM)
		return
	case len(keys) == 0 && (signs || len(l.Ways) == 0):
		l.dkim = proofOpen
		l.e.Unknown(errors.New("there are no keys for it in the setting dkim; whether a provider signs for it "+notSeenHere+", but in its console"), doctor.CheckDomainDKIM)
		return
	case len(keys) == 0:
		l.e.Warn(doctor.CheckDomainDKIM, "make a key (openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out s1.pem), set dkim: {"+l.domain+": {keys: {s1: s1.pem}}}, and look again: this command shows the record to publish", "its mail is not signed here%s", l.others())
		return
	}
	for _, k := range keys {
		l.checkKey(ctx, k)
	}
}

// others tells of keys of a domain above one that has none.
func (l *look) others() string {
	for _, name := range l.Signers.Domains() {
		if strings.HasSuffix(l.domain, "."+name) {
			return ": there are keys of " + name + ", but they are for other senders"
		}
	}
	return ""
}

// checkKey looks for the record of one key.
func (l *look) checkKey(ctx context.Context, k *dkim.Key) {
	name := k.RecordName()
	text, err := k.Record()
	if err != nil {
		l.dkim = max(l.dkim, proofOpen)
		l.e.Unknown(err, doctor.CheckDomainDKIM)
		return
	}
	publish := "publish " + record(name, text)
	answer, err := l.ask(ctx, name, dns.TXT)
	if err != nil {
		l.dkim = max(l.dkim, proofOpen)
		l.e.Unknown(err, doctor.CheckDomainDKIM)
		return
	}
	fail := func(format string, args ...any) { l.e.Fail(doctor.CheckDomainDKIM, publish, format, args...) }
	switch {
	case answer.Status != dns.Found && len(answer.Aliases) > 0:
		fail("%s is an alias of %s, which has no TXT record", name, answer.Aliases[len(answer.Aliases)-1])
		return
	case answer.Status != dns.Found:
		fail("mail is signed with a key whose record is not there: %s", name)
		return
	case len(answer.Texts) > 1: // RFC 6376, 3.6.2.2
		fail("%s has %d TXT records, want one: which of them a receiver takes is left to chance", name, len(answer.Texts))
		return
	}
	r, err := parseKeyRecord(answer.Texts[0])
	switch {
	case err != nil:
		fail("the record %s cannot be used: %v", name, err)
	case r.public == nil:
		l.e.Fail(doctor.CheckDomainDKIM, "sign with another selector; what is signed with this one fails", "the record %s says that the key is revoked (p= is empty)", name)
	case !sameKey(r, k):
		fail("the record %s has another key (%s) than the one that mail is signed with (%s): each signature fails", name, keyWord(r), text[strings.Index(text, "k=")+2:strings.Index(text, "; p=")])
	case r.testing:
		l.dkim = proofGiven
		l.e.Warn(doctor.CheckDomainDKIM, publish+" (without t=y)", "the record %s says that signing is only tried (t=y): receivers may treat mail as if it were not signed", name)
	default:
		l.dkim = proofGiven
		l.e.Fine(doctor.CheckDomainDKIM, "the record %s%s has the key that mail is signed with, %s", name, by(&answer), keyWord(r))
	}
}

func sameKey(r *keyRecord, k *dkim.Key) bool {
	ours, ok := k.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && ours.Equal(r.public)
}

func keyWord(r *keyRecord) string {
	if r.bits > 0 {
		return fmt.Sprintf("RSA of %d bits", r.bits)
	}
	return "Ed25519"
}
