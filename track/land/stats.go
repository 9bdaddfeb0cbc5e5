package land

import (
	"sync/atomic"

	"sluice"
	"sluice/lib/meter"
)

// counts is what a server has answered.
type counts struct {
	opens, clicks, machines, refused atomic.Int64
	seconds                          meter.Seconds
}

func (c *counts) of(name string) *atomic.Int64 {
	if name == sluice.EventClicked {
		return &c.clicks
	}
	return &c.opens
}

// Snapshot is what a server has done since it started.
type Snapshot struct {
	Opens, Clicks int64
	Machines      int64 // of these by a sign of the request itself
	Refused       int64 // requests that name nothing made here
	Spilled       int64 // events, and choices of people, that went to a file
	Lost          int64 // events that neither Redis nor the disk took
	Seconds       meter.Snapshot
}

// Stats returns the counts.
func (s *Server) Stats() Snapshot {
	c, r := &s.counts, s.o.Recorder
	spilled := r.Spilled()
	if s.o.Choices != nil {
		spilled += s.o.Choices.Spilled()
	}
	return Snapshot{Opens: c.opens.Load(), Clicks: c.clicks.Load(), Machines: c.machines.Load(), Refused: c.refused.Load(),
		Spilled: spilled, Lost: r.lost.Load(), Seconds: c.seconds.Snapshot()}
}
