package netaddr

import "testing"

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example.com": false, "0.0.0.0": false, "::": false, "192.168.0.1": false, "127.0.0.1:80": false, "[::1]": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestWithPort(t *testing.T) {
	for address, want := range map[string]string{
		"a": "a:1", "a:2": "a:2", "::1": "[::1]:1", "[::1]": "[::1]:1", "[::1]:2": "[::1]:2",
	} {
		if got := WithPort(address, "1"); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}
