package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/dnstest"
)

func TestCheckAddr(t *testing.T) {
	for text, may := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true, "100.128.0.0": true, "2606:4700::1111": true, "2a00::1": true,
		"64:ff9b::808:808": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.255.255.254": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "168.63.129.16": false,
		"198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"64:ff9b:1::1": false, "2002:7f00:1::": false, "2001:0:1::1": false, "2001:db8::1": false, "100::1": false,
	} {
		if err := CheckAddr(netip.MustParseAddr(text)); (err == nil) != may || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	g := &Guard{Allow: []string{"receiver.test", "127.0.0.1"}}
	for text, may := range map[string]bool{
		"https://example.com/x?y=z": true, "https://example.com:8443": true, "https://8.8.8.8/": true, "http://receiver.test/": true, "http://RECEIVER.test./": true, "https://127.0.0.1": true,
		"http://127.0.0.1:80/": true, "http://example.com": false, "ftp://example.com": false, "https://": false, "https:example.com": false, "example.com": false, "https://u:p@example.com": false,
		"https://example.com/#x": false, "https://10.0.0.1/": false, "https://[::1]/": false, "https://[::ffff:127.0.0.1]/": false, "http://receiver.test.example.com/": false, "file:///etc/passwd": false,
		"https://169.254.169.254/latest": false, "http://localhost": false, "https://a b/": false,
	} {
		if err := g.Check(text); (err == nil) != may {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// resolverOf asks a DNS server of a test.
func resolverOf(server *dnstest.Server) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server.Addr())
	}}
}

// receiver counts requests that have arrived.
func receiver(t *testing.T, count *atomic.Int64) (port string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// What a name resolves to decides, by whatever form it is written, and no request
// arrives where none may.
func TestDial(t *testing.T) {
	var arrived atomic.Int64
	port := receiver(t, &arrived)
	server := dnstest.Start(t, "inside.test A 127.0.0.1", "both.test A 127.0.0.1", "both.test A 8.8.8.8", "mapped.test AAAA ::ffff:127.0.0.1", "v6.test AAAA ::1",
		"metadata.test A 169.254.169.254", "allowed.test A 127.0.0.1", "alias.test CNAME inside.test")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+port)
	client := (&Guard{Allow: []string{"allowed.test"}, Resolver: resolverOf(server)}).Client()
	for _, c := range []struct {
		host    string
		refused bool // by the guard
		arrives bool
	}{
		{host: "inside.test", refused: true}, {host: "both.test", refused: true}, {host: "mapped.test", refused: true}, {host: "v6.test", refused: true}, {host: "metadata.test", refused: true},
		{host: "alias.test", refused: true}, {host: "127.0.0.1", refused: true}, {host: "[::1]", refused: true}, {host: "[::ffff:127.0.0.1]", refused: true}, {host: "0.0.0.0", refused: true},
		{host: "2130706433"}, {host: "0x7f000001"}, {host: "017700000001"}, {host: "127.1"}, // are looked up as names, which there are not
		{host: "allowed.test", arrives: true}, {host: "ALLOWED.test.", arrives: true},
	} {
		before := arrived.Load()
		answer, err := client.Get("http://" + c.host + ":" + port + "/")
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != c.arrives || arrived.Load() > before != c.arrives || errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%s: %v, %d requests arrived", c.host, err, arrived.Load()-before)
		}
	}
}

// A name that leads outside when it is checked and inside afterwards is resolved for each
// connection, and what was checked is what is dialled.
func TestRebinding(t *testing.T) {
	var arrived atomic.Int64
	port := receiver(t, &arrived)
	server := dnstest.Start(t, "rebind.test A 127.0.0.1")
	g := &Guard{Resolver: resolverOf(server)}
	dialled, err := g.resolve(t.Context(), "rebind.test")
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("got %v, %v", dialled, err)
	}
	server.Set(t, "rebind.test A 192.0.2.1", "rebind.test A 8.8.8.8")
	if _, err = g.resolve(t.Context(), "rebind.test"); !errors.Is(err, ErrRefused) {
		t.Errorf("one address of two is refused: %v", err)
	}
	server.Set(t, "rebind.test A 8.8.8.8")
	before := server.Asked("rebind.test")
	if dialled, err = g.resolve(t.Context(), "rebind.test"); err != nil || len(dialled) != 1 || dialled[0] != netip.MustParseAddr("8.8.8.8") {
		t.Fatalf("got %v, %v", dialled, err)
	}
	if asked := server.Asked("rebind.test"); asked == before {
		t.Errorf("nobody was asked")
	}
	server.Set(t, "rebind.test A 127.0.0.1")
	if _, err := g.Client().Get("http://rebind.test:" + port + "/"); !errors.Is(err, ErrRefused) || arrived.Load() > 0 {
		t.Errorf("%v, %d requests arrived", err, arrived.Load())
	}
}

// Addresses that drop all that they are sent leave time for the next one; however many
// there are, they have ConnectTimeout in all.
func TestAddressesThatDrop(t *testing.T) {
	all := make([]netip.Addr, maxAddresses)
	for i := range all {
		all[i] = netip.AddrFrom4([4]byte{8, 8, 8, byte(i)})
	}
	for _, c := range []struct{ addresses, good int }{{1, 0}, {2, 1}, {3, 2}, {maxAddresses, 3}, {maxAddresses, maxAddresses}} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			defer theirs.Close()
			g := &Guard{connect: func(ctx context.Context, _, address string) (net.Conn, error) {
				if c.good < len(all) && address == net.JoinHostPort(all[c.good].String(), "443") {
					return ours, ctx.Err()
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			ctx, stop := context.WithTimeout(t.Context(), ConnectTimeout)
			defer stop()
			began := time.Now() // the clock of the bubble
			conn, err := g.dialAny(ctx, "tcp", all[:c.addresses], "443")
			if (err == nil) != (c.good < c.addresses) || (conn != nil) != (err == nil) {
				t.Errorf("%d addresses, of which the one at %d answers: %v", c.addresses, c.good, err)
			}
			if took := time.Since(began); took > ConnectTimeout {
				t.Errorf("%d addresses take %s", c.addresses, took)
			}
		})
	}
}

func TestNoRedirects(t *testing.T) {
	var arrived atomic.Int64
	port := receiver(t, &arrived)
	answer, err := (&Guard{Allow: []string{"127.0.0.1"}}).Client().Get("http://127.0.0.1:" + port + "/redirect")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusTemporaryRedirect || arrived.Load() != 1 {
		t.Errorf("%v, %s, %d requests, %q", err, answer.Status, arrived.Load(), text)
	}
}

// How long to wait is what the answer says, never less than nothing or more than is believed.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 31, 10, 20, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "NaN": 0, "7": 7 * time.Second, "1.5": 1500 * time.Millisecond,
		"3600": time.Hour, "3601": time.Hour, "99999999999999999999999": time.Hour, // no int64 has these
		"Sat, 31 Jan 2026 10:21:00 GMT": time.Minute, "Sat, 31 Jan 2026 10:19:00 GMT": 0, "Sun, 31 Jan 2027 10:20:00 GMT": time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now, time.Hour); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := RetryAfter(nil, now, time.Hour); got != 0 {
		t.Errorf("without the header: %v", got)
	}
}
