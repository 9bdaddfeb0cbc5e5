INSERT INTO user_addresses (kind, name, part, number) VALUES $ROWS ON CONFLICT (kind, name, part, number) DO NOTHING
