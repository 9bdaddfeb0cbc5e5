SELECT line, reason FROM import_refused WHERE import_id = ? AND line > ? ORDER BY line LIMIT ?
