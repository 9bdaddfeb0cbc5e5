DELETE FROM dead_chunks WHERE dead_id = ?
