UPDATE cursors SET pos_major = LAST_INSERT_ID(CASE WHEN pos_major + ? < ? THEN ? ELSE pos_major + ? END), updated = ? WHERE follower = ? AND part = 0
