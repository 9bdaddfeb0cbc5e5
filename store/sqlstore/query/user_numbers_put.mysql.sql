INSERT INTO user_numbers (part, last_user, last_forward) VALUES $ROWS
ON DUPLICATE KEY UPDATE last_user = GREATEST(last_user, VALUES(last_user)), last_forward = GREATEST(last_forward, VALUES(last_forward))
