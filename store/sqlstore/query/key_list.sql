SELECT id, name, permissions, hash, created, revoked FROM api_keys ORDER BY created, id
