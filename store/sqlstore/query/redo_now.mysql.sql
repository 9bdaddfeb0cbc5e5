SHOW GLOBAL STATUS WHERE variable_name = 'Innodb_redo_log_capacity_resized'
