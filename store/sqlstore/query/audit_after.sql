SELECT id, at, path, detail, was, became FROM audit_log WHERE id > ? ORDER BY id LIMIT ?
