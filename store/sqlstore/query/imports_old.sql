SELECT id FROM imports WHERE updated < ? ORDER BY id LIMIT ?
