SELECT id FROM dead_letters WHERE found_at < ? ORDER BY id LIMIT ?
