SELECT id, name, in_use, latest, created, updated, archived FROM templates WHERE id > ? AND (archived IS NULL OR ? = 1) ORDER BY id LIMIT ?
