INSERT INTO mail_stops (id, stops, updated) VALUES (1, ?, ?)
ON CONFLICT (id) DO UPDATE SET stops = excluded.stops, updated = excluded.updated
