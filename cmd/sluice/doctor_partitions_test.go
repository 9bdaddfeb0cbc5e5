package main

import (
	"testing"

	"sluice/lib/doctor"
)

// Only the database says how many partitions there are. Without it no lease of a partition
// is looked for, since one that does not exist would seem to be free.
func TestDoctorWithoutTheNumberOfPartitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "redis: embedded\n")
	serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_PARTITIONS=2")
	const away = "postgres://u:x@127.0.0.1:1/db"
	_, found := diagnosed(t, dir, "--database", away)
	if found[doctor.CheckProcesses] != doctor.SeverityOK || found[doctor.CheckLeases] != doctor.SeverityUnknown {
		t.Errorf("processes %s, leases %s", found[doctor.CheckProcesses], found[doctor.CheckLeases])
	}
	awaitDoctor(t, dir, "the leases of the partitions that are named are held", func(r result) bool {
		return worstOf(t, r)[doctor.CheckLeases] == doctor.SeverityOK
	}, "--json", "--database", away, "--partitions", "2")
}
