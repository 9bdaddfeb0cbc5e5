SHOW SESSION VARIABLES LIKE 'idle_transaction_timeout'
