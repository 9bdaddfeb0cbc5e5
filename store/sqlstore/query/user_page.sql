SELECT '', part, number, updated, to_part, to_number, profile FROM users WHERE part = ? AND number > ? AND to_number <= 0 ORDER BY number LIMIT ?
