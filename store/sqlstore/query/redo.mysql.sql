SHOW GLOBAL VARIABLES WHERE variable_name IN ('innodb_redo_log_capacity', 'innodb_log_file_size', 'innodb_log_files_in_group')
