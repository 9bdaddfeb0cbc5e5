SELECT GET_LOCK(CONCAT('sluice.migrate.', MD5(DATABASE())), ?)
