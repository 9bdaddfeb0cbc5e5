SELECT id, name, definition, created, updated, archived FROM segments WHERE id > ? AND (archived IS NULL OR ? = 1) ORDER BY id $ORDER LIMIT ? OFFSET ?
