INSERT INTO journey_skips (journey, until) VALUES (?, ?)
