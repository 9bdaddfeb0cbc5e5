SELECT number, profile FROM users WHERE $USERS AND to_number <= 0
