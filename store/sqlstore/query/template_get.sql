SELECT id, name, in_use, latest, created, updated, archived FROM templates WHERE id = ?
