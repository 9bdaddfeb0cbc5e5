SELECT $COLUMNS FROM sends WHERE user_part = ? AND user_number = ? AND message <= ? AND (message < ? OR number < ?) ORDER BY message DESC, number DESC LIMIT ?
