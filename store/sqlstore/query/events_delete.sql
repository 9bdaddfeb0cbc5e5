DELETE FROM events WHERE time >= ? AND time < ? AND kind = ?
