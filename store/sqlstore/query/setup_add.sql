INSERT INTO account_setups (hash, ends) VALUES (?, ?)
