// Package ingest moves what comes in to where it is kept. Elements of foreign
// lists go into tables of their owners (table.go) or, as events, into the logs
// of the partitions (router.go). The logs go into the standard tables
// (store.go). element.go, row.go and names.go turn an element into an
// event or a row. It speaks to the logs through package flow and to the
// database through the interfaces of packages store and user.
package ingest
