// Package dialer makes connections that soon notice when the machine of their server has
// vanished without a word, as by a power cut or a cable.
package dialer

import (
	"net"
	"strings"
	"syscall"
	"time"
)

// probes is how many probes of a silent connection are not answered until it is given up,
// where there is no bound in time.
const probes = 3

// New returns what dials within a time, and gives a connection up on which nothing was
// acknowledged for another: neither what was sent nor a probe. The kernel sends again for
// a quarter of an hour what is not acknowledged, and asks after two minutes whether a
// silent peer is still there.
//
// The machine of a living server acknowledges and answers probes, whatever the server does.
// What is cut is a server that reads nothing for so long, while the buffers between are
// full.
func New(within, gone time.Duration) net.Dialer {
	return net.Dialer{
		Timeout:         within,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: gone / 2, Interval: gone / 5, Count: probes},
		Control: func(network, _ string, socket syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			return boundSilence(socket, gone)
		},
	}
}
