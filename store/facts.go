package store

import (
	"sluice"
)

// FactTable is one of our tables whose rows are items of the logs, one each: facts.
// Its key is the place of the item (part, pos_major, pos_minor, item), and Columns are
// the others. So an item that is read again, also after the database has gone back, is
// the same row. docs/extend.md shows how one is added.
type FactTable struct {
	Name    string
	Columns []DumpColumn
}

// Fact is a row of such a table.
type Fact struct {
	Table *FactTable
	Place sluice.Place

	// Cells are the values of Columns: times in milliseconds since 1970.
	Cells []Cell
}

// FactTables are all of them. A backup has them, and a test compares the list with what
// the migrations have made. The items that become facts are in ingest/kinds.go.
var FactTables []*FactTable
