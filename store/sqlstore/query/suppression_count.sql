UPDATE cursors SET pos_major = CASE WHEN pos_major + ? < ? THEN ? ELSE pos_major + ? END, updated = ? WHERE follower = ? AND part = 0 RETURNING pos_major
