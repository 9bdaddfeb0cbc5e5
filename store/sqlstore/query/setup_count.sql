SELECT COUNT(*) FROM account_setups WHERE hash = ? AND ends >= ?
