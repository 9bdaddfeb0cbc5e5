SELECT message FROM sends WHERE message > ? ORDER BY message, number LIMIT 1 OFFSET ?
