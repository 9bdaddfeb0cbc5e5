SELECT number, profile FROM users WHERE part = ? AND number IN ($NAMES) AND to_number <= 0
