SELECT $COLUMNS FROM sends WHERE state = 'in_doubt' AND message >= ? AND (message > ? OR number > ?) ORDER BY message, number LIMIT ?
