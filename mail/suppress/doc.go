// Package suppress knows which addresses are not to be mailed. It has the list
// that senders ask, in memory, and what keeps it as the database has it.
package suppress
