SELECT number, CAST(profile AS BLOB) FROM users WHERE id > ? AND id <= ? AND to_number <= 0 ORDER BY id LIMIT ?
