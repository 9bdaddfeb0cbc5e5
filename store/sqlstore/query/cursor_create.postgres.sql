INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES (?, ?, 0, 0, ?)
ON CONFLICT (follower, part) DO NOTHING
