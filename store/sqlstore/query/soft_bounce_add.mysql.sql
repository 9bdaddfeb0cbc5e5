INSERT INTO soft_bounces (entry, day) VALUES $ROWS ON DUPLICATE KEY UPDATE day = VALUES(day)
