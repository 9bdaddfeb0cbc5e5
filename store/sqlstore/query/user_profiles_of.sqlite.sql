SELECT number, CAST(profile AS BLOB) FROM users WHERE $USERS AND to_number <= 0
