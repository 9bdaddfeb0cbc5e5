package engine

import (
	"net"
	"net/url"
	"strings"

	"sluice/config"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/lib/netaddr"
	"sluice/store/mongostore"
	"sluice/store/sqlstore"
)

// reach is how the configuration says that a server is reached.
type reach struct {
	where         string
	hosts         []string // none: it is on this machine, by a socket or as a file
	tls, verified bool
	password      bool
	tlsForm       string // how its URL asks for TLS
}

// ExamineServerTLS looks at the URLs of all servers: what goes to another machine
// should go by TLS, and that machine should ask who comes. The addresses of users
// and the contents of mails are in each of them. It connects to nothing.
func ExamineServerTLS(cfg *config.Config) doctor.Examination {
	e := doctor.Examination{Where: "servers"}
	var all []reach
	for _, u := range RedisURLs(cfg) {
		if u != config.RedisEmbedded {
			all = append(all, redisTransport(u))
		}
	}
	for _, s := range cfg.SuppressionSets {
		if s.Redis != "" && s.Redis != config.RedisEmbedded {
			all = append(all, redisTransport(s.Redis))
		}
	}
	if t, err := sqlstore.TransportOf(cfg.Database.Reveal()); err == nil { // else another check says so
		one := reach{where: t.Where, tls: t.TLS, verified: t.Verified, password: t.Password, tlsForm: "?tls=true (MariaDB, MySQL) or ?sslmode=verify-full (PostgreSQL) behind its URL"}
		one.hosts = t.Hosts
		all = append(all, one)
	}
	if cfg.TimeSeries != "" {
		all = append(all, mongoTransport(cfg.TimeSeries))
	}
	seen := make(map[string]bool)
	for _, t := range all {
		if !seen[t.where] {
			seen[t.where] = true
			t.judge(&e, cfg)
		}
	}
	return e
}

// judge enters what is wrong with a server; what is in order is one finding each.
func (t *reach) judge(e *doctor.Examination, cfg *config.Config) {
	of := doctor.Examination{Where: t.where}
	var remote []string
	for _, host := range t.hosts {
		if !thisMachine(host) && !cfg.Plain(host) {
			remote = append(remote, host)
		}
	}
	why := "it is on this machine"
	if len(t.hosts) > 0 && !thisMachine(t.hosts[0]) {
		why = "plain_servers allows it"
	}
	const allow = ", or, if nobody else is on the way, name it in plain_servers"
	switch {
	case t.tls && t.verified:
		of.Fine(doctor.CheckServerTLS, "it is reached by TLS, and its certificate is checked")
	case len(remote) == 0:
		of.Fine(doctor.CheckServerTLS, "no TLS is needed: %s", why)
	case t.tls:
		of.Warn(doctor.CheckServerTLS, "have the certificate checked: "+t.tlsForm+allow, "it is reached by TLS, and its certificate is not checked: an attacker on the way can read and change everything")
	default:
		of.Fail(doctor.CheckServerTLS, "use "+t.tlsForm+allow, "%s is another machine and is reached without TLS, or with TLS that may be left out: addresses, mails and passwords can be read on the way", strings.Join(remote, ", "))
	}
	switch {
	case t.password:
		of.Fine(doctor.CheckServerPassword, "the program shows a password or a certificate")
	case len(remote) == 0:
		of.Fine(doctor.CheckServerPassword, "no password is needed: %s", why)
	default:
		of.Fail(doctor.CheckServerPassword, "give it a user with a password, and write both into the URL"+allow, "%s is another machine and takes the program without a password: so it takes everybody who reaches it", strings.Join(remote, ", "))
	}
	e.Findings = append(e.Findings, of.Findings...)
}

// thisMachine reports whether a host of a URL is this machine.
func thisMachine(host string) bool {
	return host == "" || netaddr.IsLoopback(strings.Trim(host, "[]"))
}

func redisTransport(address config.URL) reach {
	t := reach{where: address.String(), tlsForm: "rediss:// in its URL"}
	u, err := flow.ParseURL(address.Reveal())
	if err != nil || u.Scheme == "unix" {
		return t
	}
	_, t.password = u.User.Password()
	for _, host := range append(strings.Split(u.Host, ","), u.Query()["addr"]...) {
		t.hosts = append(t.hosts, (&url.URL{Host: host}).Hostname())
	}
	if t.tls, t.verified, err = flow.TransportOf(address.Reveal()); err != nil { // then the program does not start
		return t
	}
	if strings.HasSuffix(u.Scheme, "-sentinel") {
		t.tlsForm = "rediss-sentinel:// in its URL"
	}
	return t
}

// mongoTransport reads a URL of MongoDB, which may have several hosts.
func mongoTransport(address config.URL) reach {
	t := reach{where: address.String(), tlsForm: "tls=true in its URL"}
	p := mongostore.Split(address.Reveal())
	t.password = strings.Contains(p.User, ":")
	for host := range strings.SplitSeq(p.Hosts, ",") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !strings.HasPrefix(host, "%2F") && !strings.HasPrefix(host, "/") { // a socket
			t.hosts = append(t.hosts, host)
		}
	}
	options, err := url.ParseQuery(p.Options)
	if err != nil {
		return t
	}
	says := func(name, want string) bool {
		for key, values := range options {
			if strings.EqualFold(key, name) && len(values) > 0 {
				return strings.EqualFold(values[0], want)
			}
		}
		return false
	}
	has := func(name string) bool { return says(name, "true") }
	t.tls = has("tls") || has("ssl") || p.Scheme == "mongodb+srv" && !says("tls", "false") && !says("ssl", "false")
	t.verified = t.tls && !has("tlsInsecure") && !has("tlsAllowInvalidCertificates") && !has("sslInsecure")
	t.password = t.password || strings.Contains(strings.ToLower(p.Options), "tlscertificatekeyfile=")
	return t
}
