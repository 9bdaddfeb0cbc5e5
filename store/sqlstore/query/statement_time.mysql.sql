SHOW SESSION VARIABLES LIKE 'max_statement_time'
