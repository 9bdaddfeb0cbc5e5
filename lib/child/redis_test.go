package child

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// limit bounds a whole test; nothing is measured against it.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startRedis(t *testing.T, opt RedisOptions) *Redis {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	r, err := StartRedis(limit(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ask sends one inline command and returns the first line of the answer, or
// for a bulk string its text.
func ask(t *testing.T, network, addr, command string) string {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(line, "$") && !strings.HasPrefix(line, "$-1") {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

func wantAnswer(t *testing.T, r *Redis, command, want string) {
	t.Helper()
	if got := ask(t, "unix", r.Socket(), command); got != want {
		t.Errorf("%s: got %q, want %q", command, got, want)
	}
}
