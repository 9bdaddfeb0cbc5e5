DELETE FROM erasures WHERE name = ? AND created < ?
