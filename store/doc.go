// Package store is the contract of databases: the effect of a batch (Effect), its
// one transaction (Store.Apply), dead letters, facts, dumps, and what retention and
// erasure ask. sqlstore keeps it on SQLite, MariaDB and PostgreSQL; mongostore is a
// mirror of counts.
package store
