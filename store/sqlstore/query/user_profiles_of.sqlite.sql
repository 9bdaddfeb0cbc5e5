SELECT number, CAST(profile AS BLOB) FROM users WHERE part = ? AND number IN ($NAMES) AND to_number <= 0
