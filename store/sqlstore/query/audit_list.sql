SELECT id, at, account, name, method, path, status, detail, was, became FROM audit_log WHERE id < ? ORDER BY id DESC LIMIT ?
