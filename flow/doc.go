// Package flow is the machinery that everything else moves in: partitions,
// logs, leases, followers, commits, and lists of foreign programs drained in
// place. It is the only package that speaks Redis.
//
// Files: keys.go has every key name; lua/ has every script, one file each.
// log.go is the log of a partition; writer.go the open batches that requests
// wait for; list.go a foreign list. lease.go decides which process works on
// what; pipe.go runs a follower; commit.go writes effects inside Redis.
package flow
