UPDATE imports SET removed = removed + ?, updated = ? WHERE id = ?
