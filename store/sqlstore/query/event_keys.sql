SELECT time, event_id FROM events WHERE time >= ? AND time < ? AND kind = ? ORDER BY time, event_id LIMIT ?
