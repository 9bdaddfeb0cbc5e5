SELECT time FROM events WHERE time >= ? AND time < ? AND kind = ? ORDER BY time LIMIT 1 OFFSET ?
