SELECT $COLUMNS FROM sends WHERE state = 'waiting' AND part = ? AND message >= ? AND (message > ? OR number > ?) ORDER BY message, number LIMIT ?
