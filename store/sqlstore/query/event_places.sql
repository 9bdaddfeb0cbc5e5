SELECT pos_major, pos_minor, item FROM events WHERE part = ? AND pos_major BETWEEN ? AND ? AND time BETWEEN ? AND ?
