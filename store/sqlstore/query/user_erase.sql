INSERT INTO erasures (name, created) VALUES $ROWS ON CONFLICT (name) DO UPDATE SET created = excluded.created
