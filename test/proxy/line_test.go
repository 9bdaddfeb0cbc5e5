package proxy

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// Bytes that go into a line come out of it, in order, later, and so does its
// end. A line is long, not slow: a hundred pieces take no longer than one.
func TestLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // sends back what it gets, and ends when that ends
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	const delay = 30 * time.Millisecond
	line, err := NewLine("tcp", l.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	c, err := net.Dial("tcp", line.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	var want bytes.Buffer
	for i := range 100 {
		want.Write(bytes.Repeat([]byte{byte(i)}, 10000))
	}
	go func() {
		_, _ = c.Write(want.Bytes())
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*delay {
		t.Errorf("the first byte was back after %s, less than twice %s", took, delay)
	}
	rest, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(append(first, rest...), want.Bytes()) {
		t.Errorf("%d bytes came back of %d: %v", len(rest)+1, want.Len(), err)
	}

	open, err := net.Dial("tcp", line.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := line.Close(); err != nil { // with a connection open
		t.Error(err)
	}
}
