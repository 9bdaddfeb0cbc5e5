UPDATE sends SET clicks = ? WHERE message = ? AND number = ?
