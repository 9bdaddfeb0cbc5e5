INSERT INTO user_keys (kind, name, part, number) VALUES $ROWS ON DUPLICATE KEY UPDATE part = VALUES(part), number = VALUES(number)
