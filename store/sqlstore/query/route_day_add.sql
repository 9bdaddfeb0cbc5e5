INSERT INTO route_days AS t (route, stripe, day, attempts) VALUES $ROWS
ON CONFLICT (route, stripe) DO UPDATE SET
  attempts = CASE WHEN excluded.day > t.day THEN excluded.attempts WHEN excluded.day = t.day THEN t.attempts + excluded.attempts ELSE t.attempts END,
  day = CASE WHEN excluded.day > t.day THEN excluded.day ELSE t.day END
