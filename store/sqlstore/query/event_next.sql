SELECT time FROM events WHERE time >= ? ORDER BY time LIMIT 1
