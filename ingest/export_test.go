package ingest

// For tests of what an older version has begun.
var (
	PartitionOf     = partitionOf
	PartitionBefore = partitionBefore
)
