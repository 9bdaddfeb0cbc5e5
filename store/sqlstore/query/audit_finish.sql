UPDATE audit_log SET status = ?, detail = ?, was = ?, became = ? WHERE id = ?
