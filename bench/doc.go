// Package bench measures: the old designs (package bench/baseline) and the
// program beside them, in one run, on one machine, with the same events and the
// same servers. Each bench is a row of the table in registry.go.
//
// The rules. What is measured is the real program: a child process, started
// as its user starts it (child.go). A row counts only if the database was
// afterwards found to hold exactly the rows it should (verify in tables.go);
// otherwise the bench fails. Runs of what is compared are interleaved and
// repeated, and their medians compared, so that a machine that others share
// does not decide by its mood. Absolute figures belong to a machine; what is
// promised, and asserted, are ratios inside one run.
package bench
