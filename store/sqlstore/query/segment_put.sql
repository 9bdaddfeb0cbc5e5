UPDATE segments SET name = ?, definition = ?, updated = ?, archived = ? WHERE id = ?
