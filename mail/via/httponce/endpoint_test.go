package httponce

import (
	"net/url"
	"testing"
)

func TestCheckWay(t *testing.T) {
	for text, want := range map[string]bool{
		"https://api.example.com": true, "https://10.0.0.7:8443/x": true, "http://127.0.0.1:8080": true, "http://[::1]:1": true, "http://localhost": true, "http://127.9.9.9": true,
		"http://api.example.com": false, "http://10.0.0.7": false, "http://localhost.example.com": false, "http://127.0.0.1.example.com": false, "http://0.0.0.0": false, "ftp://localhost": false, "//localhost": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckWay(u); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
