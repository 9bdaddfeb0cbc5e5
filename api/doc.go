// Package api is the HTTP surface: health, readiness, metrics, and the one
// shape of errors. It knows the program only as the interface Program and the
// snapshot Stats. The layers below hand out plain counters and never import
// this package or Prometheus.
package api
