SELECT DISTINCT class, state FROM sends WHERE message > ? AND message <= ? AND state <> 'waiting' AND due IS NULL AND updated < ?
