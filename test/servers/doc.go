// Package servers starts private servers as child processes, for tests and benches:
// MariaDB, PostgreSQL, FerretDB, Postfix, a Redis Cluster, and what stands in for
// Amazon SES. It knows how to start, await, stop, kill, pause and restart them, and
// nothing of their use. Package child says what holds for all of them.
//
// A program that is missing is an error that names the package to install.
package servers
