INSERT INTO journey_holds (journey, reason, since) VALUES (?, ?, ?)
