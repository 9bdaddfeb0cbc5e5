INSERT INTO series_changes (app_id, name, bucket, stripe, stamp) VALUES $ROWS
ON DUPLICATE KEY UPDATE stamp = VALUES(stamp)
