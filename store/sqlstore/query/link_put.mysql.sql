INSERT INTO links (hash, target, used) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE used = VALUES(used)
