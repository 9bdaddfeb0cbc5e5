INSERT IGNORE INTO soft_bounces (entry, day) VALUES $ROWS
