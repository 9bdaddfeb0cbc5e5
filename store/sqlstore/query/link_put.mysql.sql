INSERT INTO links (hash, target, used) VALUES $ROWS
ON DUPLICATE KEY UPDATE used = VALUES(used)
