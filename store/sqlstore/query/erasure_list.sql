SELECT name, created FROM erasures WHERE name > ? AND created >= ? AND created < ? ORDER BY name LIMIT ?
