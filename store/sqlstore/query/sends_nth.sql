SELECT message FROM sends WHERE message > ? AND message < ? AND state <> 'waiting' AND due IS NULL AND updated < ? ORDER BY message, number LIMIT 1 OFFSET ?
