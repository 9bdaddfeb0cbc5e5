INSERT INTO journey_checkpoints (part, stamp, pos_major, pos_minor, notes, saved) VALUES (?, ?, 0, 0, '', ?)
