// Package bench measures the old designs (package bench/baseline) and the
// program beside them. Both run in one run, on one machine, with the same
// events and the same servers. Each bench is a row of the table in registry.go.
//
// The rules. What is measured is the real program: a child process, started
// as its user starts it (child.go). A row counts only if the database was
// afterwards found to hold exactly the rows it should (verify in tables.go);
// otherwise the bench fails. Runs that are compared are interleaved and
// repeated, and their medians compared. So the mood of a shared machine does
// not decide. Absolute figures belong to a machine. The promised and asserted
// figures are ratios inside one run.
package bench
