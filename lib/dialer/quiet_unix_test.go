//go:build unix

package dialer_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/lib/dialer"
)

// TestQuietBesideAReader: who reads in the background, and waits, keeps nobody waiting.
func TestQuietBesideAReader(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read := make(chan struct{})
	go func() { // ends with the connection
		defer close(read)
		_, _ = conn.Read(make([]byte, 1))
	}()
	const looks = 10_000 // the reader waits at one of them
	for range looks {
		if !dialer.Quiet(conn) {
			t.Fatal("a connection on which nothing came is not quiet")
		}
		runtime.Gosched()
	}
	_ = conn.Close()
	<-read
}

// TestQuiet: a connection is quiet until its peer says a word, which stays, or ends it.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		for _, last := range []string{"a word", "its end"} {
			t.Run(network+" "+last, func(t *testing.T) {
				listener, err := net.Listen(network, address)
				if err != nil {
					t.Fatal(err)
				}
				defer listener.Close()
				conn, err := net.Dial(network, listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				peer, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer peer.Close()
				for range 3 {
					if !dialer.Quiet(conn) || !dialer.Quiet(tls.Client(conn, &tls.Config{})) {
						t.Fatal("a connection on which nothing came is not quiet")
					}
				}
				if last == "a word" {
					_, err = peer.Write([]byte("a"))
				} else {
					err = peer.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
				for dialer.Quiet(conn) { // until it is there
				}
				if dialer.Quiet(tls.Client(conn, &tls.Config{})) {
					t.Error("below TLS it is quiet")
				}
				if last == "a word" {
					word := make([]byte, 2)
					if n, err := conn.Read(word); n != 1 || word[0] != 'a' {
						t.Errorf("read %q (%v), want the word", word[:n], err)
					}
				}
			})
		}
	}
}
