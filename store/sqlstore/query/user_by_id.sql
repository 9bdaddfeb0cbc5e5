SELECT '', part, number, updated, to_part, to_number, profile FROM users WHERE $USERS
