SELECT entry FROM soft_bounces WHERE entry > ? ORDER BY entry LIMIT 1 OFFSET ?
