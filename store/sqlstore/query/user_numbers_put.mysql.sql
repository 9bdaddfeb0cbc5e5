INSERT INTO user_numbers (part, last_user, last_forward) VALUES $ROWS ON DUPLICATE KEY UPDATE last_user = VALUES(last_user), last_forward = VALUES(last_forward)
