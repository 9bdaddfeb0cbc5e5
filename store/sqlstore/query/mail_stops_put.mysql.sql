INSERT INTO mail_stops (id, stops, updated) VALUES (1, ?, ?)
ON DUPLICATE KEY UPDATE stops = VALUES(stops), updated = VALUES(updated)
