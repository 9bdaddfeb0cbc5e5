package flow

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"sluice/lib/dialer"
	"sluice/lib/netaddr"
)

const (
	// lookAgainEvery is how often a client asks a cluster, or sentinels, which
	// servers are masters now. A promotion that it was not told of, or that it
	// missed, is noticed by it.
	lookAgainEvery = time.Second

	// How soon a server is given up whose machine has vanished without a word, and a
	// sentinel. The sentinels of other machines need some seconds to promote a replica, and
	// clients that ask the one that has vanished are to know of it by then.
	serverGoneAfter   = 5 * time.Second
	sentinelGoneAfter = 3 * time.Second

	// dialWithin bounds an attempt to connect.
	dialWithin = 5 * time.Second

	// pingEvery is how often a connection on which nothing comes is asked whether its
	// server is there.
	pingEvery = time.Second

	// maxRedirects bounds how often one command follows MOVED and ASK at once.
	maxRedirects = 8

	// maxSeeds bounds the addresses of one URL.
	maxSeeds = 64

	sentinelPort = "26379"
	redisPort    = "6379"

	addressForms = "want redis://HOST:PORT, with several nodes of a cluster redis://HOST:PORT,HOST:PORT, rediss:// for TLS, unix:///PATH, or redis-sentinel://HOST:PORT,HOST:PORT/MASTER_SET"
)

// clientOption says how a client of a URL behaves.
func clientOption(rawURL string) (rueidis.ClientOption, error) {
	plain, err := plainURL(rawURL)
	var option rueidis.ClientOption
	if err == nil {
		option, err = rueidis.ParseURL(plain)
	}
	if err == nil && len(option.InitAddress) > maxSeeds {
		err = fmt.Errorf("it has %d addresses, the most is %d", len(option.InitAddress), maxSeeds)
	}
	if err != nil {
		return option, fmt.Errorf("connect to redis %s: %w; %s", redactURL(rawURL), redactError(err, rawURL), addressForms)
	}
	option.DisableCache = true
	// A write that was sent and not answered may have been done. Only the
	// caller knows how to ask, so the library repeats nothing.
	option.DisableRetry = true
	option.ReadBufferEachConn = connBufferBytes
	option.WriteBufferEachConn = connBufferBytes
	option.RingScaleEachConn = 8
	option.Dialer = dialer.New(dialWithin, serverGoneAfter)
	option.Dialer.KeepAlive = pingEvery
	option.ClientName = "sluice"
	option.ClusterOption = rueidis.ClusterOption{ShardsRefreshInterval: lookAgainEvery, MaxMovedRedirections: maxRedirects}
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // each server is checked by the name that it is dialled by
	}
	if set := option.Sentinel.MasterSet; set != "" {
		u, _ := url.Parse(plain) // it was read above
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: set, Username: u.Query().Get("sentinel_user"), Password: u.Query().Get("sentinel_password"),
			Dialer: dialer.New(dialWithin, sentinelGoneAfter), TLSConfig: option.TLSConfig, ClientName: option.ClientName, TopologyRefreshInterval: lookAgainEvery,
		}
		option.Sentinel.Dialer.KeepAlive = pingEvery
	}
	return option, nil
}

// TransportOf reports whether a URL asks for TLS, and whether the server's certificate is
// then checked. The client library reads the URL: it has several forms of skip_verify.
func TransportOf(rawURL string) (tls, verified bool, err error) {
	option, err := clientOption(rawURL)
	if err != nil || option.TLSConfig == nil {
		return false, false, err
	}
	return true, !option.TLSConfig.InsecureSkipVerify, nil
}

// ParseURL is url.Parse of a URL that may have several hosts, separated by commas:
// Host has them all as they stand.
func ParseURL(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := rest[begin:end]
	if !ok || !strings.Contains(hosts, ",") {
		return url.Parse(raw)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, err := url.Parse(scheme + "://" + host); err != nil {
			return nil, err
		}
	}
	first, _, _ := strings.Cut(hosts, ",")
	u, err := url.Parse(scheme + "://" + rest[:begin] + first + rest[end:])
	if err == nil {
		u.Host = hosts
	}
	return u, err
}

// plainURL returns a URL in the form that the client library reads. Hosts behind the
// first become parameters addr. redis-sentinel://HOSTS/NAME becomes redis:// with the
// parameter master_set.
func plainURL(rawURL string) (string, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return "", err
	}
	if u.Scheme == "unix" {
		return rawURL, nil
	}
	q := u.Query()
	port := redisPort
	if scheme, ok := strings.CutSuffix(u.Scheme, "-sentinel"); ok {
		set := strings.Trim(u.Path, "/")
		if set == "" || strings.Contains(set, "/") {
			return "", errors.New("it names no master set: which of the masters that the sentinels watch?")
		}
		u.Scheme, u.Path, u.RawPath = scheme, "", ""
		q.Set("master_set", set)
	}
	if q.Get("master_set") != "" {
		port = sentinelPort
	}
	hosts := strings.Split(u.Host, ",")
	hosts = append(hosts, q["addr"]...)
	for i, host := range hosts {
		if host == "" {
			return "", errors.New("one of its addresses is empty")
		}
		hosts[i] = netaddr.WithPort(host, port)
	}
	u.Host = hosts[0]
	q.Del("addr")
	for _, host := range hosts[1:] {
		q.Add("addr", host)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// redactURL returns the URL with its passwords, if any, replaced.
func redactURL(raw string) string {
	u, err := ParseURL(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	if q := u.Query(); q.Has("sentinel_password") {
		q.Set("sentinel_password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

// redactError drops the text of an error that repeats a URL with a password.
func redactError(err error, rawURL string) error {
	if u, perr := ParseURL(rawURL); perr != nil || u.User != nil || u.Query().Has("sentinel_password") {
		return errors.New("the URL cannot be read")
	}
	return err
}

// local reports whether a URL names a server of this machine.
func local(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil || strings.HasSuffix(u.Scheme, "-sentinel") {
		return false
	}
	return u.Scheme == "unix" || netaddr.IsLoopback(u.Hostname())
}
