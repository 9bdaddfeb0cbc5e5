INSERT INTO links (hash, target, used) VALUES $ROWS
ON CONFLICT (hash) DO UPDATE SET used = excluded.used
