INSERT INTO user_numbers (part, last_user, last_forward) VALUES $ROWS ON CONFLICT (part) DO UPDATE SET last_user = excluded.last_user, last_forward = excluded.last_forward
