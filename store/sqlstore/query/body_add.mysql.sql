INSERT INTO bodies (message, n, recipients, remaining, created, data) VALUES $ROWS ON DUPLICATE KEY UPDATE created = VALUES(created)
