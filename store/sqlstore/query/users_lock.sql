SELECT number, to_number FROM users WHERE $USERS ORDER BY number FOR UPDATE
