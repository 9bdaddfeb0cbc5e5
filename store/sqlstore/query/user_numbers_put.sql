INSERT INTO user_numbers (part, last_user, last_forward) VALUES $ROWS ON CONFLICT (part) DO UPDATE SET
last_user = CASE WHEN excluded.last_user > user_numbers.last_user THEN excluded.last_user ELSE user_numbers.last_user END,
last_forward = CASE WHEN excluded.last_forward > user_numbers.last_forward THEN excluded.last_forward ELSE user_numbers.last_forward END
