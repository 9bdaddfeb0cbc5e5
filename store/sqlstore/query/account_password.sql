UPDATE accounts SET password = ?, updated = ? WHERE id = ?
