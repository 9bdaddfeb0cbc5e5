SELECT to_number FROM users WHERE part = ? AND number = ? FOR UPDATE
