INSERT INTO api_keys (id, name, permissions, hash, created) VALUES (?, ?, ?, ?, ?)
