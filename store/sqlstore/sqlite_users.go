package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/store"
	"sluice/user"
)

// SQLite has the rows of users under one number, the id: the partition above, the number
// of the user below, in userNumberBits bits. part and number are columns that it computes
// when they are read, so that queries by people have them.
//
// A table whose key is two columns (WITHOUT ROWID) has its rows in all pages of its tree.
// A profile has some 400 bytes, so a page has about ten rows, and the tree of 10,000,000
// users is 6 or 7 pages deep. By an id, pages above the rows have numbers alone, some 400
// each: the tree is 3 or 4 pages deep, and all but the last are nearly always in memory.
//
// Invariants. No statement looks users up, or orders them, by part or number: it would
// read all (TestUsersAreFoundByTheirIDs). Every id is made by packUser, or by the database
// of columns of a table that has users which packUser has let in. What does not fit is
// refused when it is written, and is nobody when it is looked up: it must never be the id
// of another user.

// userNumberBits are those of user.MaxNumber. They leave 23 bits to the partition, of
// which sluice.MaxPartitions uses 8.
const (
	userNumberBits = 40
	maxUserPart    = 1<<(63-userNumberBits) - 1
)

// nobodysID is an id that no user has.
const nobodysID int64 = -1

// packUser returns the id of a user; an error: there is none.
func packUser(id user.ID) (int64, error) {
	if id.Partition < 0 || id.Partition > maxUserPart || id.Number < 0 || id.Number > user.MaxNumber {
		return nobodysID, fmt.Errorf("store user %d of partition %d: SQLite takes users up to number %d and partitions up to %d; move to MariaDB or PostgreSQL by backup and restore",
			id.Number, id.Partition, int64(user.MaxNumber), maxUserPart)
	}
	return int64(id.Partition)<<userNumberBits | id.Number, nil
}

// Marks in statements, for how a database finds users: those of a partition by their numbers,
// one of them, and the row u of users that the row k of another table names.
var (
	usersByTwo = strings.NewReplacer("$USERS", "part = ? AND number IN ($NAMES)", "$ONE_USER", "part = ? AND number = ?", "$USER_OF_K", "u.part = k.part AND u.number = k.number")
	usersByID  = strings.NewReplacer("$USERS", "id IN ($NAMES)", "$ONE_USER", "id = ?", "$USER_OF_K", "u.id = (k.part << "+strconv.Itoa(userNumberBits)+" | k.number)")
)

func (plainSQL) userMarks() *strings.Replacer         { return usersByTwo }
func (d *sqliteDialect) userMarks() *strings.Replacer { return usersByID }

func (plainSQL) userArgs(partition int, numbers ...any) []any {
	return slices.Concat([]any{partition}, numbers)
}

func (d *sqliteDialect) userArgs(partition int, numbers ...any) []any {
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i], _ = packUser(user.ID{Partition: partition, Number: n.(int64)}) // nobody, if it is none
	}
	return args
}

func (plainSQL) usersAfter(partition int, number int64) []any { return []any{partition, number} }

func (d *sqliteDialect) usersAfter(partition int, number int64) []any {
	last, err := packUser(user.ID{Partition: partition, Number: user.MaxNumber})
	if err != nil {
		return []any{nobodysID, nobodysID}
	}
	after, err := packUser(user.ID{Partition: partition, Number: max(number, 0)})
	if err != nil {
		after = last
	}
	return []any{after, last}
}

func (d *sqliteDialect) putUsers(ctx context.Context, t *txn, rows []user.Row) error {
	args := make([]any, 0, 5*len(rows))
	for i := range rows {
		r := &rows[i]
		id, err := packUser(r.ID)
		if err != nil {
			return err
		}
		args = append(args, id, d.millis(r.UpdatedMillis), r.MergedInto.Partition, r.MergedInto.Number, r.Profile)
	}
	_, err := d.insertRows(ctx, t, rawQuery(d, "user_put"), 5, args)
	return err
}

func (plainSQL) keyOf(t *standardTable) []string { return t.key }

func (d *sqliteDialect) keyOf(t *standardTable) []string {
	if t.name == "users" {
		return []string{"id"} // in the order of part and number
	}
	return t.key
}

func (plainSQL) restored(_ *table, cells []store.Cell) ([]store.Cell, error) { return cells, nil }

// restored puts the id in the place of part and number.
func (d *sqliteDialect) restored(t *table, cells []store.Cell) ([]store.Cell, error) {
	if t.name != "users" {
		return cells, nil
	}
	width := len(t.columns)
	part, number := slices.Index(t.columns, "part"), slices.Index(t.columns, "number")
	if part < 0 || number < 0 {
		return nil, fmt.Errorf("its rows have no part or no number")
	}
	others := func(yield func(int) bool) {
		for c := range width {
			if c != part && c != number && !yield(c) {
				return
			}
		}
	}
	packed := make([]store.Cell, 0, len(cells)/width*(width-1))
	for row := range slices.Chunk(cells, width) {
		id, err := unpackedID(row[part].Text, row[number].Text)
		if err != nil {
			return nil, err
		}
		packed = append(packed, store.Cell{Kind: store.CellNumber, Text: strconv.FormatInt(id, 10)})
		for c := range others {
			packed = append(packed, row[c])
		}
	}
	columns, classes := []string{"id"}, []class{classNumber}
	for c := range others {
		columns, classes = append(columns, t.columns[c]), append(classes, t.classes[c])
	}
	t.columns, t.spec.Columns, t.classes = columns, columns, classes
	return packed, nil
}

// unpackedID returns the id of a user whose partition and number are texts.
func unpackedID(part, number string) (int64, error) {
	p, err := strconv.Atoi(part)
	if err != nil {
		return nobodysID, fmt.Errorf("read the partition of a user: %w", err)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nobodysID, fmt.Errorf("read the number of a user: %w", err)
	}
	return packUser(user.ID{Partition: p, Number: n})
}
