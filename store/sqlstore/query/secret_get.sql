SELECT data FROM secrets WHERE name = ?
