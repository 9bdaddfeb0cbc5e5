package proxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Vanish has the server's machine be gone without a word, as by a power cut: what clients
// send is not acknowledged, nor is an attempt to connect, and nothing comes to them, until
// Close. A filter on the sockets drops what arrives, which takes no rights.
func (p *Proxy) Vanish() error {
	p.Stall()
	all := []any{p.listener} // at first: no new connection comes behind it
	for _, c := range p.list() {
		all = append(all, c.client)
	}
	for _, socket := range all {
		if err := dropAll(socket); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("have the proxy to %s vanish: %w", p.target, err)
		}
	}
	return nil
}

func dropAll(socket any) error {
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}} // of each packet 0 bytes are kept
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	return errors.Join(failed, err)
}
