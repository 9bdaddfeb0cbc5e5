package flow

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/lib/doctor"
	"sluice/test/servers"
)

// A URL that cannot work is refused with what to do about it.
func TestDialOfWrongServers(t *testing.T) {
	t.Parallel()
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{Dir: t.TempDir(), Replicas: 2, Sentinels: 3, Extra: []string{"--min-replicas-to-write", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	node, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{"--cluster-enabled", "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Kill() })
	secured, port := startSecured(t)
	sentinel, second, server, replica := s.Sentinels[0].Addr(), s.Sentinels[1].Addr(), s.Servers[0].Addr(), s.Servers[1].Addr()
	tests := []struct {
		url, found, remedy string
		waits              bool // a start waits for it
	}{
		{"redis://" + sentinel, "is a sentinel", "watches: " + servers.SentinelSet, false},
		{"redis://" + sentinel + "," + second, "is a sentinel", "redis-sentinel://", false},
		{"redis-sentinel://" + sentinel + "/other", "watches no master set other, but: " + servers.SentinelSet, "name one that it watches", false},
		{"redis-sentinel://" + server + "/" + servers.SentinelSet, "is a server, no sentinel", "port 26379", false},
		{"redis://" + replica, "is a replica of " + server, "redis-sentinel://", true},
		{"redis://" + server + "," + replica, "is a server alone", "name one server", false},
		{"redis://" + node.Addr(), "has the slots 0-16383", "--cluster create", true},
		{"redis://127.0.0.1:1,127.0.0.1:2", "none of its 2 addresses", "start them", true},
		{"redis://127.0.0.1:1", "connection refused", "is it running", true},
		{"redis://" + secured, "NOAUTH", "put the user and password into the URL", false},
		{"redis://127.0.0.1:1," + secured, secured + " refuses", "put the user and password into the URL", false},
		{"rediss://" + server, "speaks no TLS", "write redis://", false},
		{"rediss-sentinel://u:s3cret@" + sentinel + "/" + servers.SentinelSet, "speaks no TLS", "redis-sentinel:// in place", false},
		{"redis://127.0.0.1:" + port, "speaks TLS", "write rediss://", false},
	}
	for _, test := range tests {
		r, err := Dial(t.Context(), test.url)
		if err == nil {
			err = r.TakesWrites(t.Context())
			r.Close()
		}
		if err == nil {
			t.Errorf("%s is taken", test.url)
			continue
		}
		if !strings.Contains(err.Error(), test.found) || !strings.Contains(err.Error(), test.remedy) || IsAway(err) != test.waits {
			t.Errorf("%s: %v; a start waits: %v", test.url, err, IsAway(err))
		}
		if silent := test.waits && test.url != "redis://"+replica; IsSilent(err) != silent { // that one answers
			t.Errorf("%s: %v; it is silent: %v", test.url, err, IsSilent(err))
		}
		failed := false
		for check, severity := range severities(t, &Examiner{URL: test.url}) {
			failed = failed || severity == doctor.SeverityError && check != doctor.CheckRedisClock
		}
		if !failed {
			t.Errorf("doctor finds nothing wrong with %s", test.url)
		}
	}
	for check, severity := range severities(t, &Examiner{URL: s.URL(), Main: true}) {
		if severity != doctor.SeverityOK {
			t.Errorf("of sentinels that are as they should be: %s is %s", check, severity)
		}
	}
	if err := s.Sentinels[2].Kill(); err != nil {
		t.Fatal(err)
	}
	if got := severities(t, &Examiner{URL: s.URL()})[doctor.CheckRedisFailover]; got != doctor.SeverityWarning {
		t.Errorf("with a dead sentinel: %s", got)
	}
	promoted(t, s)
}

// A replica that has asked for what its master has, and has not received it yet, cannot
// take its place: doctor says so until it has.
func TestExamineOfAReplicaThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	master, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{"--repl-diskless-sync-delay", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Kill() })
	_, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{"--replicaof", "127.0.0.1 " + port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Kill() })
	r, err := Dial(t.Context(), master.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	found := func() doctor.Severity {
		return severities(t, &Examiner{URL: master.URL(), Main: true})[doctor.CheckRedisFailover]
	}
	eventually(t, "doctor warns of the replica", func() bool { return found() == doctor.SeverityWarning })
	if err := r.Do(t.Context(), "set the delay", r.B().ConfigSet().ParameterValue().ParameterValue("repl-diskless-sync-delay", "0").Build()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "doctor finds nothing", func() bool { return found() == doctor.SeverityOK })
}

// promoted kills the master: the client goes on with the one that is promoted.
func promoted(t *testing.T, s *servers.Sentinels) {
	t.Helper()
	r, err := Dial(t.Context(), "redis-sentinel://127.0.0.1:1,"+s.Sentinels[0].Addr()+"/"+servers.SentinelSet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	write := func() error { return r.Do(t.Context(), "write", r.B().Set().Key("a").Value("b").Build()) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := s.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "a replica is the master", func() bool { return s.Master() != nil })
	took := time.Since(began)
	eventually(t, "the client writes to it", func() bool { return write() == nil })
	t.Logf("a replica was the master after %s, and was written after %s more", took.Round(10*time.Millisecond), (time.Since(began) - took).Round(10*time.Millisecond))
}

// A server that refuses the greeting, as one that wants another name or version, speaks TLS.
func TestRefusedGreetingIsTLS(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("not for you") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).HandshakeContext(t.Context())
			_ = c.Close()
		}
	}()
	if !speaksTLS(t.Context(), l.Addr().String()) {
		t.Error("it is taken for one that speaks none")
	}
}

// startSecured starts a Redis that wants a password, and returns its address and the port on
// which it speaks TLS.
func startSecured(t *testing.T) (address, port string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	file := filepath.Join(t.TempDir(), "tls.pem")
	blocks := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	must(os.WriteFile(file, blocks, 0o600))
	var r *servers.Redis
	for range 3 { // another program may take the port before Redis does
		var free net.Listener
		free, err = net.Listen("tcp", "127.0.0.1:0")
		must(err)
		_, port, err = net.SplitHostPort(free.Addr().String())
		must(errors.Join(err, free.Close()))
		r, err = servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{
			"--requirepass", "s3cret", "--tls-port", port, "--tls-cert-file", file, "--tls-key-file", file, "--tls-ca-cert-file", file,
		}})
		if err == nil {
			break
		}
	}
	must(err)
	t.Cleanup(func() { _ = r.Kill() })
	return r.Addr(), port
}
