UPDATE api_keys SET revoked = ? WHERE id = ? AND revoked IS NULL
