INSERT INTO users (part, number, updated, to_part, to_number, profile) VALUES $ROWS
ON DUPLICATE KEY UPDATE updated = VALUES(updated), to_part = VALUES(to_part), to_number = VALUES(to_number), profile = VALUES(profile)
