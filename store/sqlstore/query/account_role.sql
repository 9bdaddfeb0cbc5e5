UPDATE accounts SET role = ?, updated = ? WHERE id = ?
