INSERT INTO user_keys (kind, name, part, number) VALUES $ROWS ON CONFLICT (kind, name) DO NOTHING
