UPDATE cursors SET pos_major = ?, pos_minor = pos_minor + 1, updated = ? WHERE follower = ? AND part = 0 AND pos_major <= ?
