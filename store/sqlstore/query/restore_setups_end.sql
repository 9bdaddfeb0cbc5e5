DELETE FROM account_setups
