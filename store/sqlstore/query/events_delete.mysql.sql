DELETE FROM events WHERE time >= ? AND time < ? AND kind = ? LIMIT 4294967295
