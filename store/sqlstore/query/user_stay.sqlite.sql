SELECT to_number FROM users WHERE $ONE_USER
