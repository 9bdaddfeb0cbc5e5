UPDATE templates SET name = ?, in_use = ?, updated = ?, archived = ? WHERE id = ?
