INSERT INTO users (id, updated, to_part, to_number, profile) VALUES $ROWS
ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, to_part = excluded.to_part, to_number = excluded.to_number, profile = excluded.profile
