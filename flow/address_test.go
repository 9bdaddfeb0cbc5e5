package flow

import (
	"slices"
	"strings"
	"testing"
)

// The forms of a URL lead to these addresses.
func TestClientOption(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url, set string
		db       int
		want     []string
		refused  string
	}{
		{url: "redis://10.0.0.7", want: []string{"10.0.0.7:6379"}},
		{url: "redis://u:p@a:1,b,c:3/2", db: 2, want: []string{"a:1", "b:6379", "c:3"}},
		{url: "redis://a:1?addr=b:2&addr=c", want: []string{"a:1", "b:2", "c:6379"}},
		{url: "redis://[::1]:7,[::2]:8", want: []string{"[::1]:7", "[::2]:8"}},
		{url: "redis-sentinel://u:p@a:1,b/main?db=3", set: "main", db: 3, want: []string{"a:1", "b:26379"}},
		{url: "rediss-sentinel://a/main", set: "main", want: []string{"a:26379"}},
		{url: "redis://a:1?addr=b&master_set=main", set: "main", want: []string{"a:1", "b:26379"}},
		{url: "unix:///run/redis.sock", want: []string{"/run/redis.sock"}},
		{url: "redis-sentinel://a:1,b:2", refused: "names no master set"},
		{url: "redis-sentinel://a:1/x/y", refused: "names no master set"},
		{url: "redis://a:1,,b:2", refused: "addresses is empty"},
		{url: "redis://a" + strings.Repeat(",a", maxSeeds), refused: "the most is"},
		{url: "http://a", refused: "want redis://"},
	}
	for _, test := range tests {
		option, err := clientOption(test.url)
		if test.refused != "" {
			if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%s: %v, want %q", test.url, err, test.refused)
			}
			continue
		}
		if err != nil || !slices.Equal(option.InitAddress, test.want) || option.Sentinel.MasterSet != test.set || option.SelectDB != test.db {
			t.Errorf("%s: %v of %q, database %d, %v", test.url, option.InitAddress, option.Sentinel.MasterSet, option.SelectDB, err)
		}
		if strings.HasPrefix(test.url, "rediss") && (option.TLSConfig == nil || option.Sentinel.TLSConfig == nil) {
			t.Errorf("%s: no TLS", test.url)
		}
	}
}

// Neither password is shown.
func TestRedactURL(t *testing.T) {
	t.Parallel()
	const url = "redis-sentinel://u:s3cret@a:1,b:2/main?sentinel_password=s3cret2"
	if got := redactURL(url); strings.Contains(got, "s3cret") || !strings.Contains(got, "a:1,b:2/main") {
		t.Error(got)
	}
	option, err := clientOption(url)
	if err != nil || option.Password != "s3cret" || option.Sentinel.Password != "s3cret2" {
		t.Errorf("%q, %q, %v", option.Password, option.Sentinel.Password, err)
	}
}

// Nodes are read from what a node says of them.
func TestParseNodes(t *testing.T) {
	t.Parallel()
	nodes := parseNodes("aa 10.0.0.1:6379@16379,host myself,master - 0 1 3 connected 0-5460 16000 [93->-bb]\n" +
		"bb 10.0.0.2:6379@16379 master,fail - 0 1 2 disconnected 5461-15999\n" +
		"cc 10.0.0.3:6379@16379 slave aa 0 1 3 connected\nnonsense\n")
	if len(nodes) != 3 || nodes[0].address != "10.0.0.1:6379" || !slices.Equal(nodes[0].moving, []string{"93"}) || !nodes[1].failed || nodes[2].master || nodes[2].of != "aa" {
		t.Errorf("%+v", nodes)
	}
	if err := uncovered(nodes); err == nil || !strings.Contains(err.Error(), "16001-16383") || !IsAway(err) {
		t.Error(err)
	}
}
