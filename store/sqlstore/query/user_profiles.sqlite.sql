SELECT number, CAST(profile AS BLOB) FROM users WHERE part = ? AND number > ? AND to_number <= 0 ORDER BY number LIMIT ?
