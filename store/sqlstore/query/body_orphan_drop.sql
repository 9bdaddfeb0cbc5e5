DELETE FROM bodies WHERE message = ? AND n = 0 AND created < ?
