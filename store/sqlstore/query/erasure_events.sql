SELECT time, event_id, user_ref, email, pos_major FROM events WHERE time >= ? AND time <= ? AND (time > ? OR event_id > ?) AND (user_ref IN ($NAMES) OR LOWER(email) IN ($ADDRESSES)$LIKE)
ORDER BY time, event_id LIMIT ?
