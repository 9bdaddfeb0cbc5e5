INSERT INTO $TABLE AS s (app_id, name, kind, bucket, stripe, count) VALUES $ROWS
ON CONFLICT (app_id, name, kind, bucket, stripe) DO UPDATE SET count = CASE
  WHEN excluded.count > 0 AND s.count > 9223372036854775807 - excluded.count THEN 9223372036854775807
  WHEN excluded.count < 0 AND s.count < -9223372036854775807 - excluded.count THEN -9223372036854775807
  ELSE s.count + excluded.count END
