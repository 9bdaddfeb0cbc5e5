UPDATE cursors SET pos_major = LAST_INSERT_ID(pos_major + ?), updated = ? WHERE follower = ? AND part = 0
