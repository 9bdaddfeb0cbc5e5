DELETE FROM events WHERE part = ? AND pos_major = ? AND pos_minor = ? AND time BETWEEN ? AND ?
