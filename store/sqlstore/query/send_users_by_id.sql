SELECT '', part, number FROM users WHERE $USERS
