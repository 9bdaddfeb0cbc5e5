// Package segment finds the users for whom rules hold (package rule), by
// reading all of them.
package segment
