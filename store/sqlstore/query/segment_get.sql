SELECT id, name, definition, created, updated, archived FROM segments WHERE id = ?
