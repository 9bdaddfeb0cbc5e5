INSERT INTO erasures (name, created) VALUES $ROWS ON DUPLICATE KEY UPDATE created = VALUES(created)
