SELECT number, to_number FROM users WHERE $USERS
