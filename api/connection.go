package api

import (
	"context"
	"net"
	"net/http"

	"sluice/lib/connlimit"
)

// connState follows what the server does with a connection: whenever it turns
// to its client, the connection is quiet.
func connState(c net.Conn, state http.ConnState) {
	if conn, ok := c.(*connlimit.Conn); ok && (state == http.StateActive || state == http.StateIdle) {
		conn.Quiet()
	}
}

// connKey is where a request's context has its connection.
type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// busy says that a request has arrived as a whole: until its answer is written
// its connection is not closed for another.
func busy(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*connlimit.Conn); ok {
		conn.Busy()
	}
}
