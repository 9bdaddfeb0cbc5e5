DELETE FROM soft_bounces WHERE entry = ? AND day <= ?
