INSERT INTO soft_bounces (entry, day) VALUES $ROWS ON CONFLICT (entry, day) DO NOTHING
