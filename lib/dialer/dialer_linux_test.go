package dialer

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection by TCP has the bound; one by a socket of this machine needs none.
func TestNew(t *testing.T) {
	t.Parallel()
	d := New(time.Minute, 3*time.Second)
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := d.DialContext(t.Context(), network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if network == "unix" {
			continue
		}
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		millis := 0
		if failed := raw.Control(func(fd uintptr) { millis, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); failed != nil || err != nil || millis != 3000 {
			t.Errorf("TCP_USER_TIMEOUT is %d, %v, %v", millis, failed, err)
		}
	}
}
