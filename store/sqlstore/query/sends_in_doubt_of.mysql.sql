SELECT message, number FROM (SELECT message, number FROM sends WHERE state = 'in_doubt' AND part = ? AND message >= ? AND (message > ? OR number > ?) ORDER BY message, number LIMIT ?) AS part
