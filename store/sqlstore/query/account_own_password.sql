UPDATE accounts SET password = ?, updated = ? WHERE id = ? AND password = ? AND updated = ?
