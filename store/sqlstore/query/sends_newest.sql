SELECT $COLUMNS FROM sends WHERE message <= ? AND (message < ? OR number < ?) ORDER BY message DESC, number DESC LIMIT ?
