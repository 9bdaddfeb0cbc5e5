package ingest

import "time"

// For tests of what an older version has begun.
var (
	PartitionOf     = partitionOf
	PartitionBefore = partitionBefore
)

// MostProfiles bounds the bytes of profiles of a transaction of several batches.
const MostProfiles = mostProfiles

// FlushWait is how long the first row of a writer of the store waits for company.
func FlushWait(s *StoreFollower) time.Duration { return s.flushWait() }
