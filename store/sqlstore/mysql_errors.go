package sqlstore

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// The server's error numbers that this package decides on.
const (
	errDuplicate    = 1062
	errNoTable      = 1146
	errNoInfile     = 1148 // MySQL up to 5.7, old MariaDB
	errNoInfile8    = 3948 // MySQL 8
	errNoInfileMari = 4166 // MariaDB
)

// dataErrors are errors about a row's data with an SQLSTATE that does not say
// so. Any error that is not here and not of the classes 22, 23 and 45 is the
// server's state (full, read-only, shutting down, a table altered or gone). It
// passes, or an operator is needed; dead letters made for it would be good
// rows.
var dataErrors = []uint16{
	1118, // row size too large
	1265, // data truncated
	1292, // truncated incorrect value
	1364, // field has no default value
	1366, // incorrect value
	1367, // illegal value found during parsing
	1411, // incorrect value for function
	1526, // no partition for value
	1748, // row not of the named partition
	3819, // check constraint violated (MySQL)
	4025, // constraint failed (MariaDB)
	4078, // illegal parameter data types
}

// refusal says whether an error is about the data of a row, and how to say it.
func (d *mysqlDialect) refusal(err error) (string, bool) {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return "", false
	}
	switch string(e.SQLState[:2]) {
	case "22", "23", "45":
		return e.Error(), true
	}
	return e.Error(), slices.Contains(dataErrors, e.Number)
}

func (d *mysqlDialect) noTable(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == errNoTable
}

func infileForbidden(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == errNoInfile || e.Number == errNoInfile8 || e.Number == errNoInfileMari)
}

func isDuplicate(t *target, err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == errDuplicate && duplicateOf(t, []byte(e.Message))
}

// duplicateOf says whether a message "Duplicate entry 'x' for key 'k'" is about
// a key that tells duplicates by the event's id. A row that violates another
// unique key is a bad row, not one that was there already. MySQL 8 writes the
// key as table.key; the entry may hold anything, so the key is looked for from
// the end.
func duplicateOf(t *target, message []byte) bool {
	if !t.dedupe {
		return false
	}
	const before = " for key '"
	at := bytes.LastIndex(message, []byte(before))
	if at < 0 {
		return false
	}
	name := bytes.TrimSuffix(message[at+len(before):], []byte("'"))
	for _, k := range t.keys {
		if string(name) == k.name {
			return true
		}
		if n := len(name) - len(k.name); n > 0 && name[n-1] == '.' && string(name[n:]) == k.name {
			return true
		}
	}
	return false
}
