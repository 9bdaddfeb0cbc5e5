SELECT name, part, number FROM user_keys WHERE kind = ? AND name >= ? AND name < ? ORDER BY kind, name LIMIT ?
