package ingest

import "time"

// For tests of what an older version has begun.
var (
	PartitionOf     = partitionOf
	PartitionBefore = partitionBefore
)

// FlushWait is how long the first row of a writer of the store waits for company.
func FlushWait(s *StoreFollower) time.Duration { return s.flushWait() }
