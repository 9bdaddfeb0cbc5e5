DELETE FROM sends WHERE message > ? AND message <= ? AND class = ? AND state = ? AND due IS NULL AND updated < ?
