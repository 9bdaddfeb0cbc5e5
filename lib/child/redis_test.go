package child

import (
	"context"
	"errors"
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

// wantAnswer sends one inline command, and looks for what is wanted in all that comes
// back until the server closes the connection.
func wantAnswer(t *testing.T, r *Redis, command, want string) {
	t.Helper()
	conn, err := net.Dial("unix", r.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, e := io.WriteString(conn, command+"\r\nQUIT\r\n"); err == nil {
		err = e
	}
	got, e := io.ReadAll(conn)
	if err = errors.Join(err, e); err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%s: got %q, %v, want %q", command, got, err, want)
	}
}
