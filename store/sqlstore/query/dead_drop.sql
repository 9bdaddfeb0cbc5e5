DELETE FROM dead_letters WHERE id = ?
