SELECT id, to_part, items FROM forwards WHERE part = ? ORDER BY id LIMIT ?
