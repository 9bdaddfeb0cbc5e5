package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"sluice/lib/child"
)

// Ports of servers are below those that systems give to outgoing connections
// (32768 on Linux, 49152 elsewhere). Otherwise a connection may have the port
// of a server that is down for a moment, and it cannot be started again.
const (
	leastPort = 10_000
	mostPort  = 32_000
	portTries = 100

	// portAttempts is how often a start is tried with a new free port. Another
	// process may take a port between our look and the server's bind.
	portAttempts = 5
)

// freePort returns a port of 127.0.0.1 that was free a moment ago.
func freePort() (port int, err error) {
	for range portTries {
		port = leastPort + rand.IntN(mostPort-leastPort)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port between %d and %d, in %d tries: %w", leastPort, mostPort, portTries, err)
}

// portTaken reports whether a start failed because its port was in use.
func portTaken(err error) bool {
	e, ok := errors.AsType[*child.ExitError](err)
	return ok && strings.Contains(e.Log, "Address already in use")
}

// onFreePort starts a server on a free port, and on another if that one was
// taken meanwhile.
func onFreePort(name string, port *int, start func() error) (err error) {
	for range portAttempts {
		if *port, err = freePort(); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		if err = start(); err == nil || !portTaken(err) {
			return err
		}
	}
	return fmt.Errorf("start %s: %d free ports were taken by others before it could bind them: %w", name, portAttempts, err)
}
