DELETE FROM account_setups WHERE ends < ?
