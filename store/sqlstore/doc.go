// Package sqlstore keeps the contract store.Store in SQLite, in MariaDB/MySQL
// and in PostgreSQL.
//
// The simple idea: one transaction moves the cursors and writes the rows. Why
// it is not that simple is the speed and the strangers:
//
//   - The transaction begins with the compare-and-set of the cursors, before
//     the heavy work. Its row locks make a stopped process's transaction and
//     its successor's follow one another, and the successor learns from the
//     number of changed rows that it is late, or not.
//   - Rows go in by the server's bulk path, encoded beforehand (Prepare) while
//     the effect before is still being applied. Each writer has one
//     connection that writes. A server has 2 to 4 writers (decisions 70, 83), SQLite one.
//   - The bulk path of MySQL turns errors into warnings. So a load counts only
//     when the rows inserted and the duplicates warned of add up to the rows
//     sent and no other warning was raised; otherwise all is rolled back and
//     the caller applies the effect by pieces, and a refused piece row by row.
//   - A process may be stopped anywhere, also in the middle of a load, and hold
//     its locks. The session limits of the writer's connection are shorter than
//     a lease, so that the server throws it out.
//
// What differs between databases is behind the interface dialect; a further
// database is a file of its own and a directory of schema.
package sqlstore
