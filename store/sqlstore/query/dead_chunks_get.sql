SELECT data FROM dead_chunks WHERE dead_id = ? ORDER BY n
