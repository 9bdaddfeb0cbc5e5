package sqlstore

import "strings"

// ForbidInfile makes a MySQL store behave as if the server had refused LOAD
// DATA LOCAL.
func ForbidInfile(s *Store) { s.d.(*mysqlDialect).noInfile.Store(true) }

// LimitByWait makes a MySQL store limit its sessions as it must on MySQL,
// which has no idle_transaction_timeout. To be called before it writes.
func LimitByWait(s *Store) {
	limits := &s.d.(*mysqlDialect).limits
	*limits = strings.Replace(*limits, "idle_transaction_timeout", "wait_timeout", 1)
}
