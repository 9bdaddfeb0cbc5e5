// Package engine builds the program out of its parts and runs it: what commands,
// benches and tests start, and what commands do beside an engine that runs.
//
// # Map
//
//	engine.go       Open, Stop, and what the servers before the engine ask it
//	wire.go         the core: its parts, and every follower in one table
//	sending.go      what sends; routes.go, domains.go, unlist.go belong to it
//	state.go        ready, and the figures that /metrics shows; state_sending.go
//	schema.go       the database's schema, and who may go on with it
//	beside.go       connections of commands beside an engine that runs
//	server_tls.go   what the start and doctor look at of this machine; disk.go, clock.go
//	log.go          the log, in which no address stands
package engine
