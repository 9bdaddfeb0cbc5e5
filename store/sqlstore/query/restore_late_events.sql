INSERT INTO late_events (part, pos_major, pos_minor)
SELECT part, pos_major, pos_minor FROM cursors
WHERE follower = 'store' AND NOT EXISTS (SELECT 1 FROM late_events l WHERE l.part = cursors.part)
