UPDATE cursors SET pos_major = ?, pos_minor = ?, updated = ? WHERE follower = ? AND part = 0 AND pos_major = ? AND pos_minor = ?
