INSERT INTO dead_chunks (dead_id, n, data) VALUES (?, ?, ?)
