SELECT pos_major FROM events WHERE part = ? AND pos_major > ? ORDER BY part, pos_major LIMIT 1
