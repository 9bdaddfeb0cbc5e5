UPDATE templates SET latest = latest + 1 WHERE id = ?
