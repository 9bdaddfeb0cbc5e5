SELECT number, profile FROM users WHERE id > ? AND id <= ? AND to_number <= 0 ORDER BY id LIMIT ?
