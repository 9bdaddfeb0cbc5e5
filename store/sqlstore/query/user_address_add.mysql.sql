INSERT INTO user_addresses (kind, name, part, number) VALUES $ROWS ON DUPLICATE KEY UPDATE kind = user_addresses.kind
