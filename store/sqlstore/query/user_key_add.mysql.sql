INSERT INTO user_keys (kind, name, part, number) VALUES $ROWS ON DUPLICATE KEY UPDATE kind = user_keys.kind
