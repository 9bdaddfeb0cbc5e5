SELECT app_id, name, kind, time FROM events WHERE part = ? AND pos_major = ? AND pos_minor = ? AND time BETWEEN ? AND ?
