SELECT pos_major FROM events WHERE part = ? AND pos_major < ? ORDER BY part DESC, pos_major DESC LIMIT 1
