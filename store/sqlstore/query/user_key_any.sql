SELECT 1 FROM user_keys WHERE kind = ? LIMIT 1
