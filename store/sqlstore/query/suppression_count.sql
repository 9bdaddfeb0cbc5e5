UPDATE cursors SET pos_major = pos_major + ?, updated = ? WHERE follower = ? AND part = 0 RETURNING pos_major
