UPDATE audit_log SET path = ?, detail = ?, was = ?, became = ? WHERE id = ?
