SELECT hash FROM links WHERE hash > ? ORDER BY hash LIMIT 1 OFFSET ?
