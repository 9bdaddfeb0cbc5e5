package sqlstore

import (
	"context"
	"net"
	"time"

	"sluice/lib/dialer"
)

// goneAfter is how soon a server is given up whose machine has vanished without a word.
// Else a transaction would keep its leases, and nothing of its partitions would be stored.
// A statement may take as long as it takes. What is cut is a server that reads nothing of
// a long load for so long.
const goneAfter = 10 * time.Second

// dialServer connects both drivers with their servers. They bound how long it takes.
func dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	d := dialer.New(0, goneAfter)
	return d.DialContext(ctx, network, address)
}
