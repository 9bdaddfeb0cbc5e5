SELECT number, to_part, to_number FROM users WHERE part = ? AND number IN ($NAMES)
