INSERT INTO secrets (name, data, created) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE name = secrets.name
