INSERT INTO secrets (name, data, created) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING
