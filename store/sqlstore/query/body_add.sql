INSERT INTO bodies (message, n, recipients, remaining, created, data) VALUES $ROWS ON CONFLICT (message, n) DO UPDATE SET created = excluded.created
