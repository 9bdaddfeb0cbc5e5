SELECT id, source, form, part, pos_major, pos_minor, item, reason, found_at, size, payload
FROM dead_letters WHERE id = ?
