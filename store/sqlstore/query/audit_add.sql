INSERT INTO audit_log (id, at, account, name, method, path, status, detail, was, became) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
