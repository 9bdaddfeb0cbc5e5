package sqlstore

import (
	"context"
	"net"
	"strings"
	"time"
)

// How soon a server is given up whose machine vanishes without a word, as by a power cut or
// a cable. The kernel sends again for a quarter of an hour what is not acknowledged, and
// asks after two minutes whether a silent peer is still there. Meanwhile a transaction
// would keep its leases, and nothing of its partitions would be stored.
//
// A statement may take as long as it takes: the machine of a living server acknowledges
// and answers probes, whatever the server does. What is cut is a server that reads nothing
// of a long load for goneAfter.
const (
	goneAfter  = 10 * time.Second // without an acknowledgement of what was sent, or of a probe
	probeAfter = 5 * time.Second  // of silence
	probeEvery = 2 * time.Second
	mostProbes = 3 // unanswered, where there is no bound in time
)

// dialServer connects both drivers with their servers.
func dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: mostProbes}}
	if strings.HasPrefix(network, "tcp") {
		dialer.Control = boundSilence
	}
	return dialer.DialContext(ctx, network, address)
}
