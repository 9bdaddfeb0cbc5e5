INSERT INTO series_changes (app_id, name, bucket, stripe, stamp) VALUES $ROWS
ON CONFLICT (app_id, name, bucket, stripe) DO UPDATE SET stamp = excluded.stamp
