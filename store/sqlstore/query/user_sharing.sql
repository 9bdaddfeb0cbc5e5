SELECT part, number FROM user_addresses
WHERE kind = ? AND name = ? AND part >= ? AND (part > ? OR number > ?) ORDER BY part, number LIMIT ?
