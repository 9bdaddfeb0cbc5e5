SELECT name, part, number FROM user_addresses WHERE kind = ? AND name >= ? AND name < ? ORDER BY kind, name, part, number LIMIT ?
