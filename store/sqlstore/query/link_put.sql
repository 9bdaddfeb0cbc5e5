INSERT INTO links (hash, target, used) VALUES (?, ?, ?)
ON CONFLICT (hash) DO UPDATE SET used = excluded.used
