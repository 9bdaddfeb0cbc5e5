INSERT INTO late_events (part, pos_major, pos_minor) VALUES $ROWS ON CONFLICT (part) DO UPDATE SET pos_major = excluded.pos_major, pos_minor = excluded.pos_minor
