INSERT INTO route_days (route, stripe, day, attempts) VALUES $ROWS
ON DUPLICATE KEY UPDATE
  attempts = CASE WHEN VALUES(day) > day THEN VALUES(attempts) WHEN VALUES(day) = day THEN attempts + VALUES(attempts) ELSE attempts END,
  day = GREATEST(day, VALUES(day))
