SELECT number, to_part, to_number FROM users WHERE $USERS
