// Package api is the HTTP surface: the calls of the API, health, readiness and metrics,
// all with one shape of errors. The paths are in calls.go, for what passes the gate as a
// whole, and in routes of server.go. gate.go lets a request in, by its key or session, its
// permission and its rate. body.go bounds and unpacks bodies.
//
// It knows the program only as the interface Program and the snapshot Stats. The layers
// below hand out plain counters and never import this package or Prometheus.
package api
