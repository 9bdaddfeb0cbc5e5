INSERT INTO late_events (part, pos_major, pos_minor) VALUES $ROWS ON DUPLICATE KEY UPDATE pos_major = VALUES(pos_major), pos_minor = VALUES(pos_minor)
