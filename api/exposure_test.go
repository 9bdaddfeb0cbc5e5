package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/lib/key"
)

// startWith starts a server on loopback.
func startWith(t *testing.T, p Program, o Options) string {
	t.Helper()
	s := New("127.0.0.1:0", p, slog.New(slog.DiscardHandler), o)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Address()
}

// behind starts a proxy on loopback before a server, and returns its address.
func behind(t *testing.T, server string, rewrite func(*httputil.ProxyRequest)) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		rewrite(r)
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// ask asks for a path under a name.
func ask(t *testing.T, server, path, host, bearer string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	client, _ := checked(t)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	if err := res.Write(&b); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

var watched = []string{"/metrics", "/v1/status", "/v1/profile"}

// A stranger whom a proxy on the same machine lets through needs a key, whether
// the proxy says so or only the configuration does.
func TestStrangersBehindAProxyNeedAKey(t *testing.T) {
	store := openKeys(t)
	_, reader := addKey(t, store, string(key.MetricsRead))
	p := &program{keys: store, stats: fullStats(), ready: errors.New("follower table:orders: redis 10.0.0.7: refused")}
	silent := func(r *httputil.ProxyRequest) { r.Out.Header["X-Forwarded-For"] = nil }
	says := func(name, value string) func(*httputil.ProxyRequest) {
		return func(r *httputil.ProxyRequest) { silent(r); r.Out.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		options Options
		rewrite func(*httputil.ProxyRequest)
	}{
		"X-Forwarded-For":        {Options{}, func(r *httputil.ProxyRequest) { r.SetXForwarded() }},
		"Forwarded":              {Options{}, says("Forwarded", "for=192.0.2.1")},
		"Via":                    {Options{}, says("Via", "1.1 proxy")},
		"X-Real-IP":              {Options{}, says("X-Real-IP", "192.0.2.1")},
		"silent, public_url":     {Options{Proxied: true}, silent},
		"silent, proxies":        {Options{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, silent},
		"silent, Host kept":      {Options{Proxied: true, Hosts: []string{"mail.example.com"}}, func(r *httputil.ProxyRequest) { silent(r); r.Out.Host = r.In.Host }},
		"another machine's name": {Options{Proxied: true, Hosts: []string{"Mail.Example.com:8443"}}, func(r *httputil.ProxyRequest) { r.Out.Host = "mail.example.com." }},
	} {
		t.Run(name, func(t *testing.T) {
			server := startWith(t, p, tt.options)
			proxy, host := behind(t, server, tt.rewrite), ""
			if len(tt.options.Hosts) > 0 {
				host = "mail.example.com"
			}
			for _, path := range watched {
				if status, text := ask(t, proxy, path, host, ""); status != http.StatusUnauthorized {
					t.Errorf("%s without a key: %d %.300s", path, status, text)
				}
				if status, text := ask(t, proxy, path, host, reader); status != http.StatusOK {
					t.Errorf("%s with a key: %d %.300s", path, status, text)
				}
			}
			if status, _ := ask(t, proxy, "/healthz", host, ""); status != http.StatusOK {
				t.Errorf("/healthz: %d", status)
			}
			// The state is for everybody, the names are not.
			for bearer, named := range map[string]bool{"": false, "slk_made_up": false, reader: true} {
				status, text := ask(t, proxy, "/readyz", host, bearer)
				if status != http.StatusServiceUnavailable || strings.Contains(text, "orders") != named || strings.Contains(text, "not shown") == named {
					t.Errorf("/readyz with the key %.8q: %d %.300s", bearer, status, text)
				}
			}
		})
	}
	direct := startWith(t, p, Options{})
	if _, text := ask(t, direct, "/readyz", "", ""); !strings.Contains(text, "orders") {
		t.Errorf("/readyz from this machine: %s", text)
	}
	for _, path := range watched {
		if status, _ := ask(t, direct, path, "", ""); status != http.StatusOK {
			t.Errorf("%s from this machine: %d", path, status)
		}
	}
}

// A page whose name was pointed at 127.0.0.1 after it was loaded gets nothing.
func TestLoopbackRefusesNamesThatAreNotItsOwn(t *testing.T) {
	server := startWith(t, &program{stats: fullStats()}, Options{Hosts: []string{"api.example.com", "mail.example.com:443"}})
	port := server[strings.LastIndexByte(server, ':'):]
	for host, want := range map[string]int{
		"": 200, "127.0.0.1" + port: 200, "127.0.0.1": 200, "127.8.8.8:1": 200, "localhost" + port: 200, "LOCALHOST.": 200, "a.localhost": 200,
		"[::1]" + port: 200, "[::ffff:127.0.0.1]": 200, "api.example.com": 200, "API.example.com.:443": 200, "mail.example.com": 200,
		"evil.example": 421, "evil.example" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "10.0.0.7": 421,
		"xapi.example.com": 421, "[2001:db8::1]:80": 421, "0.0.0.0": 421,
	} {
		for _, path := range []string{"/metrics", "/healthz", "/nothing"} {
			want := want
			if path == "/nothing" && want == 200 {
				want = 404
			}
			status, text := ask(t, server, path, host, "")
			if status != want {
				t.Errorf("%s of %q: %d, want %d", path, host, status, want)
			}
			if want == 421 && !strings.Contains(text, "setting hosts") {
				t.Errorf("the refusal of %q does not say what to do: %s", host, text)
			}
		}
	}
}

// docs/operate.md says of every path whether a proxy forwards it, and the
// configuration that stands there does what the table says.
func TestTheGuideSaysWhatAProxyForwards(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(text), "\n### Behind a proxy\n")
	guide, _, _ = strings.Cut(guide, "\n## ")
	forwarded := make(map[string]bool) // by path or, with / at its end, prefix
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| (`[^|]+) \\|").FindAllStringSubmatch(guide, -1) {
		for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			forwarded[path[1]] = row[1] != "not"
		}
	}
	nginx := regexp.MustCompile(`location ~ (\S+) \{`).FindStringSubmatch(guide)
	if nginx == nil || len(forwarded) < 25 {
		t.Fatalf("%d paths are listed, the location of nginx is %q", len(forwarded), nginx)
	}
	location := regexp.MustCompile(nginx[1])
	met := make(map[string]bool)
	for _, r := range New("", &program{}, slog.New(slog.DiscardHandler), Options{}).routes() {
		listed, forward := "", false
		for path, yes := range forwarded {
			if r.path == path || strings.HasPrefix(r.path, strings.TrimSuffix(path, "/")+"/") {
				if listed != "" {
					t.Errorf("%s is below %s and %s", r.path, listed, path)
				}
				listed, forward = path, yes
			}
		}
		if listed == "" {
			t.Errorf("docs/operate.md, \"Behind a proxy\", does not say whether a proxy forwards %s: enter it in the table, and in nginx's location if so", r.path)
			continue
		}
		met[listed] = true
		if location.MatchString(r.path) != forward {
			t.Errorf("%s: the table says forward %v, nginx's location %v", r.path, forward, !forward)
		}
	}
	for path := range forwarded {
		if !met[path] {
			t.Errorf("docs/operate.md names %s, and nothing is there", path)
		}
	}
}
