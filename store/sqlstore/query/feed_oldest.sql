SELECT time FROM events ORDER BY time LIMIT 1
