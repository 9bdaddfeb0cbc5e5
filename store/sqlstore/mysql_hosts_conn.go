package sqlstore

import (
	"context"
	"database/sql/driver"
)

// mysqlConn is what a connection of the driver can do.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// hostConn is a connection to one of several hosts, which leaves its pool once the process
// works on another one, or its server takes no writes any more.
//
// A primary that was replaced in order stays alive, and answers all that is read. It is
// behind as soon as the new one takes a write. Users who were read there and written here
// would lose what was written in between. A content that is not found there would fail its
// mail. So a connection that was idle asks its server before it is used, as those of
// PostgreSQL do: that is one round trip more for what is read. A server that still takes
// writes then has been replaced by none.
type hostConn struct {
	mysqlConn
	found  *foundHost
	number int32
}

// ResetSession implements driver.SessionResetter: it is called before a connection that was
// idle is used.
func (c *hostConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	if err := c.mysqlConn.ResetSession(ctx); err != nil {
		return err
	}
	if notReadOnly(ctx, c.mysqlConn) != nil {
		return driver.ErrBadConn // the next one says why
	}
	return nil
}

// IsValid implements driver.Validator: it is asked before a connection goes back to its pool.
func (c *hostConn) IsValid() bool {
	return c.found.last.Load() == c.number && c.mysqlConn.IsValid()
}
