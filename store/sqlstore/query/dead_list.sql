SELECT id, source, form, part, pos_major, pos_minor, item, reason, found_at
FROM dead_letters WHERE id > ? ORDER BY id LIMIT ?
