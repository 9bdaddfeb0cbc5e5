DELETE FROM imports WHERE id = ?
